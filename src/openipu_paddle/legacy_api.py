def install(paddle): pass
