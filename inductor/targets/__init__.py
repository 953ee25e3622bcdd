"""What a group of loops becomes on one kind of device: a folder each, behind `protocol.Target`."""
