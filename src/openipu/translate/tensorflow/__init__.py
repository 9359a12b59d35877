"""TensorFlow's graphs -> functions over torch ops. No TensorFlow is needed."""
