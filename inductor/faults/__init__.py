"""What faults planted in the compiler of ATen graphs do. `dynamo/faults/rows.py` names them; nothing here is imported while none is on."""
