"""A finished program of popxl as openipu runs it: one captured `Program`, its memory, its runs."""
