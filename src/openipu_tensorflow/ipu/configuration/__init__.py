"""`IPUConfig`: options as a tree, what each one does here, and the devices that they make."""
