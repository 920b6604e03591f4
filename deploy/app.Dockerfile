# An app to start with `flwr run`: Flower brings it from here to the SuperLink and the SuperNodes.
# docker build --build-context app=FOLDER_OF_THE_APP --file deploy/app.Dockerfile deploy
FROM maxfl-flower:0.2.0-flwr1.41.0
# The folder is a build context of its own, not a stage.
# hadolint ignore=DL3022
COPY --from=app . /app
