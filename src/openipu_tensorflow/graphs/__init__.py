"""TensorFlow's graphs -> plain records that `openipu.translate.tensorflow` takes."""
