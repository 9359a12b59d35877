"""`tensorflow.contrib.framework.python.framework`"""
