"""docker-compose.yaml without Docker: the very same commands, in containers of Linux' own tools.

    python -m tests.compose FOLDER      starts everything, lands a stream, audits it; as root

Each service is a process in namespaces of its own: with its host name, its address on a network
that nobody else sees, its root folder, its user, without capabilities. So no line of the file is
translated: host names, ports, `localhost`, volumes, tmpfs, `read_only` and `user` mean what they
mean to Docker. Not shown: the images themselves, `build`, `restart` and the published port.

Read in this order: `compose_file.py` reads the file, `images.py` is the table of what stands in
for images that were never pulled, `machine.py` starts containers, `__main__.py` lands and audits.
"""
