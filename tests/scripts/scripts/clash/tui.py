def draw(x):
    return "#" * int(x)
