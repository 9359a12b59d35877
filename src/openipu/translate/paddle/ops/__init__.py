"""What each of Paddle's ops computes, in torch."""
