"""Programs of PaddlePaddle, legacy and PIR -> a module over torch ops. No Paddle is needed."""
