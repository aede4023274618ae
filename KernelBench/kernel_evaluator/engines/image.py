"""The image of an epoch, made from the list in `epoch`: its steps, which Modal takes, and a `Containerfile`.

`python -m kernel_evaluator.engines.image` prints the `Containerfile` that lies at the top of the repository.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from kernel_evaluator.engines import epoch

LOCK = Path(__file__).with_name("image.txt")
"""Every package of the image by version and hash, those of `epoch.PARTS` and all that they need."""

_HEAD = """\
# The image of the epoch {epoch}, for docker, podman, enroot and apptainer. Written by `make containerfile`
# from KernelBench/kernel_evaluator/engines/epoch.py. docs/maintainers.md says how to build it.
{base}
FROM ${{BASE}}
ARG SYSTEM_PACKAGES="{system}"
ARG CXX={cxx}
ARG LOCK={lock}

# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends ${{SYSTEM_PACKAGES}} \\
  && rm -rf /var/lib/apt/lists/*

ENV PATH=/opt/venv/bin:${{PATH}} PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY ${{LOCK}} /opt/image.txt
RUN python3 -m venv /opt/venv && pip install --require-virtualenv --no-deps -r /opt/image.txt
"""
_FOOT = """
COPY . /opt/kernelbench
RUN pip install --require-virtualenv --constraint /opt/kernelbench/requirements.lock /opt/kernelbench

# From here on nothing needs a network: run it with none.
WORKDIR /work
ENTRYPOINT ["kbl"]
CMD ["doctor"]
"""


def base() -> str:
    """Name the base image, by its digest where that is known."""
    return f"{epoch.BASE_IMAGE}@{epoch.BASE_DIGEST}" if epoch.BASE_DIGEST else epoch.BASE_IMAGE


def commands() -> Iterator[str]:
    """Give the shell commands that put headers where `environment` says, after pip is done."""
    for part in epoch.PARTS:
        if part.headers:
            found = "python3 -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))'"
            yield f'cp -r "$({found})/{part.headers}" {part.folder}'
    yield from map(_unpack, epoch.ARCHIVES)


def _unpack(archive: epoch.Archive) -> str:
    packed = f"{archive.folder}.tar.gz"
    return (
        f"curl -fsSLo {packed} {archive.url} && echo '{archive.sha256} {packed}' > {packed}.sum"
        f" && sha256sum --quiet --check {packed}.sum && mkdir {archive.folder}"
        f" && tar -xzf {packed} -C {archive.folder} --strip-components=1 && rm {packed} {packed}.sum"
    )


def environment() -> Mapping[str, str]:
    """Give the variables of the image."""
    headers = {part.variable: part.folder for part in epoch.PARTS if part.variable}
    fetched = {each.variable: f"{each.folder}/{each.headers}" for each in epoch.ARCHIVES}
    return {"KERNELBENCH_EPOCH": epoch.EPOCH, **headers, **fetched}


def containerfile() -> str:
    """Give the text of the `Containerfile`."""
    named = f"ARG BASE=docker.io/{base()}"
    asked = f"# The digest of docker.io/{epoch.BASE_IMAGE} was not looked up: give BASE.\nARG BASE"
    head = _HEAD.format(
        epoch=epoch.EPOCH,
        base=named if epoch.BASE_DIGEST else asked,
        system=" ".join((*epoch.SYSTEM_PACKAGES, "python3", "python3-dev", "python3-venv")),
        cxx=epoch.CXX,
        lock=f"KernelBench/kernel_evaluator/engines/{LOCK.name}",
    )
    variables = " ".join(f"{name}={value}" for name, value in environment().items())
    runs = "".join(f"RUN {command}\n" for command in commands())
    return f"{head}{runs}ENV CXX=${{CXX}} {variables}\n{_FOOT}"


if __name__ == "__main__":
    sys.stdout.write(containerfile())
