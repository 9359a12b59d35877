"""The optimizer's update: which parameters are updated alike, and by which function in place."""
