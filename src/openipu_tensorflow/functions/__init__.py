"""`strategy.run`: functions of TensorFlow 2, with their loops, iterators and outfeeds, as programs of a device."""
