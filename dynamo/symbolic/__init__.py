"""The symbolic interpreter: Python bytecode over `Value`s.

values -> what is on the stack; frame, opcodes -> the interpreter; attributes, operators, calls -> CPython's protocols; wrap ->
real objects into values; registry, handlers -> what C functions do; policy -> what goes into the graph; tracer -> the state of one
capture.
"""
