#!/usr/bin/env python3
"""Makes the polynomial of normal_cdf() in src/ops/cpu/vec-inl.h (needs mpmath; printed, not read by the build).

The normal distribution's tail is  Phi(-u) = e^(-u^2/2) q P(t),  q = 1 / (u + C),  t = 1 - 2 C q  in [-1, 1] for u >= 0.
P is smooth and between 0.4 and 2, so a fit at Chebyshev points is close to the best one, and loses nothing in fp32.
"""
import struct
from mpmath import mp, mpf, chebyfit, erfc, exp, sqrt

mp.dps = 40
C = mpf("4")
LARGEST = mpf(14)  # e^(-u^2/2) is zero in fp32 from 13.2 on
DEGREE = 9


def scaled_tail(u):
    return erfc(u / sqrt(2)) / 2 * exp(u * u / 2)


def p(t):
    u = C * (1 + t) / (1 - t)
    return scaled_tail(u) * (u + C)


def to_fp32(x):
    return struct.unpack("f", struct.pack("f", float(x)))[0]


def main():
    high = 1 - 2 * C / (LARGEST + C)
    coefficients = [to_fp32(c) for c in chebyfit(p, [-1, high], DEGREE + 1)]
    points = [-1 + (high + 1) * i / 4000 for i in range(4001)]
    worst = max(abs(mp.polyval(coefficients, t) / p(t) - 1) for t in points)
    print(f"C = {float(C)}, highest power first, relative error of the fp32 coefficients {mp.nstr(worst, 3)}")
    print(", ".join(f"{c:.9g}f" for c in coefficients))


if __name__ == "__main__":
    main()
