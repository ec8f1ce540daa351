"""The driver: a model, its tools and a budget behind a `Run`."""

from handrail.loop._backend import Backend as Backend
from handrail.loop._backend import BackendRequest as BackendRequest
from handrail.loop._backend import FinishDelta as FinishDelta
from handrail.loop._backend import ReasoningDelta as ReasoningDelta
from handrail.loop._backend import TextDelta as TextDelta
from handrail.loop._backend import ToolCallDelta as ToolCallDelta
from handrail.loop._backend import Usage as Usage
from handrail.loop._backend import UsageDelta as UsageDelta
