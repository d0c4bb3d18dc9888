"""What a program will communicate, captured before it runs and without its devices; or as it runs.

``fx`` traces a module for every rank on torch's fake process group, ``precheck`` records ordinary
``torch.distributed`` code, ``assert_collectives_agree`` holds a step to any data on any rank,
``validate_pass`` compares a graph before and after a compiler pass, and
``inductor_guard`` does so for every pass of Inductor that touches communication, ``guarded_passes``
and ``validate_pipeline`` for a list of passes of your own. ``start`` records a real run.
"""

from planguard.capture.agree import assert_collectives_agree
from planguard.capture.passes.asked import assert_same_placements
from planguard.capture.passes.fx import FxCapture, fx
from planguard.capture.passes.guarded import guarded_passes
from planguard.capture.passes.inductor import GuardReport, inductor_guard
from planguard.capture.passes.pass_rules import Violation
from planguard.capture.passes.pipeline import PipelineReport, validate_pipeline
from planguard.capture.passes.validate_pass import PassVerdict, snapshot, validate_pass
from planguard.capture.precheck import Precheck, precheck
from planguard.capture.run.start import start, stop

__all__ = [
    "FxCapture",
    "GuardReport",
    "PassVerdict",
    "PipelineReport",
    "Precheck",
    "Violation",
    "assert_collectives_agree",
    "assert_same_placements",
    "fx",
    "guarded_passes",
    "inductor_guard",
    "precheck",
    "snapshot",
    "start",
    "stop",
    "validate_pass",
    "validate_pipeline",
]
