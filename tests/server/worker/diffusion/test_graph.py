"""Types between the pipeline and a graph."""

from __future__ import annotations

import numpy as np

from pumas_server.worker.diffusion.graph import run_graph
from support.told_graph import ToldGraph, takes


def test_feeds_have_the_declared_types_and_the_result_is_float32() -> None:
    graph = ToldGraph({"x": takes(np.float16, None), "ids": takes(np.int32, None)})
    result = run_graph(graph, {"x": np.array([0.1], np.float32), "ids": np.array([3])}, 0)
    (fed,) = graph.runs
    assert (fed["x"].dtype, fed["ids"].dtype, result.dtype) == (np.float16, np.int32, np.float32)
    assert result.item() == np.float32(np.float16(0.1))
