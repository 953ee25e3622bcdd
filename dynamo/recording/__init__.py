"""Frames on disk: what a function needs to be run again, alone and in another process.

frame --save--> a table of plain values, a file of two members --read--> the table again; nothing has run --build--> function and inputs
"""
