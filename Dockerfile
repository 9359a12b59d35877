# openipu with its PyTorch front ends, on plain Python: no IPU, no SDK. docs/install.md says how to run it.
#   docker build -t openipu .
#   docker build --build-arg EXTRAS=paddle -t openipu-paddle .
FROM python:3.11-slim

# g++ is for C++ codelets of Poplar and for compiled steps; make and git for a checkout.
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ git make \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home ipu && install -d -o ipu -g ipu /opt/openipu /opt/venv /workspace

USER ipu
WORKDIR /opt/openipu
ENV VIRTUAL_ENV=/opt/venv
ENV PATH=/opt/venv/bin:$PATH
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv "$VIRTUAL_ENV"
COPY --chown=ipu:ipu constraints.txt ./
# torch comes first and setuptools before the project: an isolated build would install both again.
RUN pip install --no-cache-dir -c constraints.txt setuptools torch==2.13.0
COPY --chown=ipu:ipu LICENSE README.md pyproject.toml setup.py ./
COPY --chown=ipu:ipu src src
ARG EXTRAS=demo,hf,lightning,onnx
RUN pip install --no-cache-dir --no-build-isolation -c constraints.txt ".[$EXTRAS]"
COPY --chown=ipu:ipu examples examples
RUN openipu doctor

WORKDIR /workspace
CMD ["/bin/bash"]
