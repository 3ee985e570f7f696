# The course in a container: docs/pages/container.md says how it is used and what of it was tried.
#
#   docker build -t triton-course .                        # with --build-arg TORCH=cpu: no GPU, smaller
#   docker run --rm -it -p 127.0.0.1:8888:8888 -v triton-course:/home/learner triton-course

# Python 3.12.14 on Debian 12, an index for x86-64 and arm64: the digest decides, the tag is to be read.
FROM python:3.12.14-slim-bookworm@sha256:782412e85d0f0984994c290652577d4018aff08145c85b262bb63dc0c7522254 AS tools
# The seats of a room have names in it; their numbers are those of hub/settings.py. A C compiler, with which Triton builds its launcher on a GPU; git and make for a dev container.
# Debian removes older versions of a package from its mirrors, so pinned ones would soon not install.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc g++ libc6-dev git make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 --shell /bin/bash learner \
    && echo 'leader:x:60600:60600::/home/learner:/bin/bash' >> /etc/passwd \
    && for n in $(seq 400); do \
        printf 'seat-%02d:x:%d:%d::/home/learner:/bin/bash\n' "$n" $((60600 + n)) $((60600 + n)); \
    done >> /etc/passwd

# The packages of uv.lock with their hashes checked, by the set-up of a checkout, in /course/.venv.
FROM tools AS packages
ARG TORCH=""
WORKDIR /course
COPY pyproject.toml uv.lock setup.py README.md LICENSE ./
COPY course/bootstrap.py course/environments.py course/
RUN TORCH="$TORCH" PIP_NO_CACHE_DIR=1 python course/bootstrap.py --room \
    && rm -rf build ~/.cache

FROM packages AS wheel
COPY . .
RUN .venv/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --no-index --wheel-dir /wheel .

FROM packages AS lab
COPY --from=wheel /wheel /wheel
# In place of the link to the checkout, which the set-up has made.
RUN .venv/bin/pip install --no-cache-dir --no-deps --no-index --force-reinstall /wheel/*.whl \
    && rm -rf course ./*.egg-info
ENV PATH=/course/.venv/bin:$PATH
USER 1000
WORKDIR /home/learner
ENV COURSE_HOME=/home/learner/triton-course
EXPOSE 8888
# It listens on the container's own address, where the port is published from; the token stays.
CMD ["course", "lab", "--no-browser", "--ServerApp.ip=0.0.0.0"]
