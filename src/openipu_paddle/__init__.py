"""PaddlePaddle on IPUs: importing this package puts them into Paddle."""

from openipu_paddle.activation import activate

activate()
