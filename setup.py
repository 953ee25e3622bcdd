"""The C extension of dynamo-debug; everything else about the package is in pyproject.toml."""

from glob import glob

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "dynamo._C",
            sources=sorted(glob("dynamo/csrc/*.c")),
            depends=sorted(glob("dynamo/csrc/*.h")),
            extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
            extra_link_args=["-ldl"],
        ),
        Extension(
            "inductor._host",
            sources=sorted(glob("inductor/csrc/*.c")),
            depends=sorted(glob("inductor/csrc/*.h")),
            extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
            extra_link_args=["-ldl"],
        ),
    ]
)
