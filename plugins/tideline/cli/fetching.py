"""`tideline fetch`: what pip does not bring."""

from __future__ import annotations

import argparse
import shutil
from collections import Counter
from pathlib import Path

from tideline.cli.output import Output
from tideline.contract.answers import Fetched
from tideline.errors import BadInput
from tideline.launch.jars import fetch_for_runs


def fetch(options: argparse.Namespace, output: Output) -> int:
    """Fetch the jars that Spark needs into the cache, once.

    Those that are there are kept. --into copies them into a folder for TIDELINE_SPARK_JARS.
    """
    jars = fetch_for_runs(s3a=options.s3a)
    if options.into is not None:
        folder = Path(options.into).absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            jars = [Path(shutil.copy(jar, folder)) for jar in jars]
        except OSError as error:
            raise BadInput(f"--into: {folder} cannot be written: {error}") from error
    counted = Counter(jar.parent for jar in jars)
    answer = Fetched(jars=[str(jar) for jar in jars])
    output.answer(answer, *(f"{count} jars in {folder}" for folder, count in counted.items()))
    return 0
