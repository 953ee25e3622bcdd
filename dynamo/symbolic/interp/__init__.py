"""The interpreter: the loop over the instructions of a frame, a row per opcode, generators."""
