"""`tensorflow.contrib.framework.python`"""
