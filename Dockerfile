# One image for every role; the compose file names the role.
FROM python:3.13-slim AS build

WORKDIR /build
RUN python -m venv /opt/tickstream
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY src src
RUN /opt/tickstream/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt '.[dashboard]'


FROM python:3.13-slim

# The stores' directory belongs to the user that runs here, and so do the
# volumes that are first mounted on it.
RUN useradd --system --uid 10001 --no-create-home --home-dir /app tickstream \
    && install -d -o tickstream -g tickstream /app /var/lib/tickstream
COPY --from=build /opt/tickstream /opt/tickstream
COPY examples /app/examples

# /app on the path lets `worker run examples.hello:app` find its module.
ENV PATH=/opt/tickstream/bin:$PATH \
    PYTHONPATH=/app \
    PYTHONUNBUFFERED=1
WORKDIR /app
USER tickstream

ENTRYPOINT ["tickstream"]
CMD ["--help"]
