# For machines that are not Linux, or to keep everything apart:
#   docker build -t evopolicygym .
#   docker run --rm -it -v "$PWD":/host -w /host evopolicygym evopolicygym doctor
# Docker's default profile allows isolation level B. For level A add
#   --security-opt seccomp=unconfined --security-opt apparmor=unconfined --cap-add SYS_ADMIN
FROM python:3.11-slim-bookworm
RUN apt-get update \
 && apt-get install -y --no-install-recommends libegl1 libgl1-mesa-dri \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/evopolicygym
COPY pyproject.toml requirements.lock README.md LICENSE ./
RUN pip install --no-cache-dir --require-hashes --no-deps -r requirements.lock
COPY src src
COPY docs docs
RUN pip install --no-cache-dir --no-deps --no-build-isolation . \
 && useradd --create-home player
USER player
WORKDIR /home/player
CMD ["evopolicygym", "doctor"]
