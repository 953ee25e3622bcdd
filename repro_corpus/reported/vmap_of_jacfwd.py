"""vmap over jacfwd of a function that multiplies by a tensor from outside."""

import torch


def distort(xy, k):
    r = (xy * xy).sum()
    return xy * (1 + k[0] * r + k[1] * r * r)


@torch.compile
def undistort(points, k):
    def one(p):
        guess = p
        for _ in range(3):
            j = torch.func.jacfwd(distort)(guess, k)
            guess = guess - torch.linalg.solve(j, distort(guess, k) - p)
        return guess

    return torch.vmap(one)(points)


print(undistort(torch.rand(4, 2) * 0.5, torch.tensor([0.03, -0.02])))
