"""Every word that two parties must spell alike: API names, closed enumerations, variables."""

from __future__ import annotations

from enum import StrEnum

DISTRIBUTION = "pumas-serving"

GROUP = "serving.pumas.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

DEFAULT_PROFILE = "default"

#: How the children of a ServedModel are told from others, and one model's from another's.
NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_LABEL = "app.kubernetes.io/instance"
COMPONENT_LABEL = "app.kubernetes.io/component"
PART_OF_LABEL = "app.kubernetes.io/part-of"
PART_OF_VALUE = "pumas-serving"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY_VALUE = "pumas-operator"
MODEL_LABEL = f"{GROUP}/model"
MODEL_UID_LABEL = f"{GROUP}/model-uid"
MODEL_NAME_ANNOTATION = f"{GROUP}/model-name"
MODEL_NAMESPACE_ANNOTATION = f"{GROUP}/model-namespace"
SPEC_HASH_ANNOTATION = f"{GROUP}/spec-hash"

#: Labels of the parts of an installation, which the chart sets.
ROUTER_NAME = "pumas-router"
OPERATOR_NAME = "pumas-operator"
WORKER_NAME = "pumas-worker"
INSPECTOR_NAME = "pumas-inspector"
SERVING_POD = "serving-pod"
INSPECTION = "inspection"

ALIAS_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:+-]*(/[A-Za-z0-9][A-Za-z0-9._:+-]*)*$"
PROFILE_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


class Runtime(StrEnum):
    """What answers for a model. `external` is a server that already runs and is not ours."""

    LLAMA_CPP = "llama.cpp"
    ONNX_RUNTIME = "onnxruntime"
    EXTERNAL = "external"


#: Runtimes that this release can run; the others are refused with `NotImplemented`.
BUILT_RUNTIMES = frozenset(Runtime)


class Task(StrEnum):
    """The hub's pipeline tags. Closed, so that a typing error is reported and not believed."""

    AUDIO_CLASSIFICATION = "audio-classification"
    AUDIO_TEXT_TO_TEXT = "audio-text-to-text"
    AUDIO_TO_AUDIO = "audio-to-audio"
    ANY_TO_ANY = "any-to-any"
    AUTOMATIC_SPEECH_RECOGNITION = "automatic-speech-recognition"
    CONVERSATIONAL = "conversational"
    DEPTH_ESTIMATION = "depth-estimation"
    DOCUMENT_QUESTION_ANSWERING = "document-question-answering"
    FEATURE_EXTRACTION = "feature-extraction"
    FILL_MASK = "fill-mask"
    IMAGE_CLASSIFICATION = "image-classification"
    IMAGE_FEATURE_EXTRACTION = "image-feature-extraction"
    IMAGE_SEGMENTATION = "image-segmentation"
    IMAGE_TEXT_TO_TEXT = "image-text-to-text"
    IMAGE_TO_IMAGE = "image-to-image"
    IMAGE_TO_TEXT = "image-to-text"
    IMAGE_TO_VIDEO = "image-to-video"
    MASK_GENERATION = "mask-generation"
    OBJECT_DETECTION = "object-detection"
    QUESTION_ANSWERING = "question-answering"
    SENTENCE_SIMILARITY = "sentence-similarity"
    SUMMARIZATION = "summarization"
    TABLE_QUESTION_ANSWERING = "table-question-answering"
    TEXT2TEXT_GENERATION = "text2text-generation"
    TEXT_CLASSIFICATION = "text-classification"
    TEXT_GENERATION = "text-generation"
    TEXT_RANKING = "text-ranking"
    TEXT_TO_AUDIO = "text-to-audio"
    TEXT_TO_IMAGE = "text-to-image"
    TEXT_TO_SPEECH = "text-to-speech"
    TEXT_TO_VIDEO = "text-to-video"
    TIME_SERIES_FORECASTING = "time-series-forecasting"
    TOKEN_CLASSIFICATION = "token-classification"
    TRANSLATION = "translation"
    VIDEO_TEXT_TO_TEXT = "video-text-to-text"
    VISUAL_QUESTION_ANSWERING = "visual-question-answering"
    ZERO_SHOT_CLASSIFICATION = "zero-shot-classification"
    ZERO_SHOT_IMAGE_CLASSIFICATION = "zero-shot-image-classification"


class EngineMode(StrEnum):
    """What one engine process does: exactly one of these."""

    GENERATE = "generate"
    EMBED = "embed"
    RERANK = "rerank"
    DECIDE = "decide"
    GENERATE_IMAGE = "generate-image"


class LoadState(StrEnum):
    """The contract's `load_state`."""

    UNLOADED = "unloaded"
    REQUESTED = "requested"
    LOADING = "loading"
    LOADED = "loaded"
    UNLOADING = "unloading"
    FAILED = "failed"


class ConditionType(StrEnum):
    """Conditions in a ServedModel's status; `docs/` and `kubectl explain` say when each is true."""

    ACCEPTED = "Accepted"
    PROGRESSING = "Progressing"
    READY = "Ready"
    SERVABLE = "Servable"


class Reason(StrEnum):
    """Condition and error reasons."""

    ACCEPTED = "Accepted"
    APPLY_REFUSED = "ApplyRefused"
    AVAILABLE = "Available"
    CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
    CREATE_CONTAINER_CONFIG_ERROR = "CreateContainerConfigError"
    DIGEST_MISMATCH = "DigestMismatch"
    DRAINING = "Draining"
    DUPLICATE_IDENTITY = "DuplicateIdentity"
    ENDPOINT_NOT_ALLOWED = "EndpointNotAllowed"
    ENGINE_FAILED = "EngineFailed"
    EVICTED = "Evicted"
    FETCH_FAILED = "FetchFailed"
    IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
    INSPECTING = "Inspecting"
    INVALID_SPEC = "InvalidSpec"
    MISSING_RANKING_HEAD = "MissingRankingHead"
    NO_ENDPOINT = "NoEndpoint"
    NOT_A_MODEL = "NotAModel"
    NOT_IMPLEMENTED = "NotImplemented"
    NOT_OBSERVED = "NotObserved"
    NOT_OWNED = "NotOwned"
    OOM_KILLED = "OOMKilled"
    PROFILE_NOT_FOUND = "ProfileNotFound"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    PROJECTOR_MISMATCH = "ProjectorMismatch"
    REPLICA_FAILURE = "ReplicaFailure"
    ROLLED_OUT = "RolledOut"
    SCALED_TO_ZERO = "ScaledToZero"
    SOURCE_NOT_ALLOWED = "SourceNotAllowed"
    SOURCE_UNREACHABLE = "SourceUnreachable"
    STARTING = "Starting"
    SUSPENDED = "Suspended"
    TASK_MISMATCH = "TaskMismatch"
    TRUNCATED = "Truncated"
    UNSCHEDULABLE = "Unschedulable"


#: Faults that no restart can mend: the model stays `failed` until its file or spec changes.
PERMANENT_REASONS = frozenset(
    {
        Reason.DIGEST_MISMATCH,
        Reason.ENDPOINT_NOT_ALLOWED,
        Reason.INVALID_SPEC,
        Reason.MISSING_RANKING_HEAD,
        Reason.NOT_A_MODEL,
        Reason.NOT_IMPLEMENTED,
        Reason.PROFILE_NOT_FOUND,
        Reason.PROJECTOR_MISMATCH,
        Reason.SOURCE_NOT_ALLOWED,
        Reason.SOURCE_UNREACHABLE,
        Reason.TASK_MISMATCH,
        Reason.TRUNCATED,
    }
)


class Variable(StrEnum):
    """Environment variables of a serving pod. Local mode overrides the first five, nothing else."""

    POD_IP = "POD_IP"
    ENGINE_PORT = "ENGINE_PORT"
    SUPERVISOR_PORT = "SUPERVISOR_PORT"
    MODELS = "PUMAS_MODELS"
    RUN = "PUMAS_RUN"
    WORKER = "PUMAS_WORKER"
    ENGINE = "PUMAS_ENGINE"
    """Which engine runs GGUF files; the one of these that a user sets. Absent: the default one."""


ENGINE_PORT_NAME = "engine"
SUPERVISOR_PORT_NAME = "supervisor"
ENGINE_PORT = 8080
SUPERVISOR_PORT = 8081

#: What `FileFacts.format` says of an ONNX model.
ONNX = "onnx"
#: How an ONNX graph's file ends, and the folder of a repository that may hold it.
ONNX_SUFFIX = ".onnx"
ONNX_FOLDER = "onnx"
#: The file that names the parts of an image pipeline.
PIPELINE_INDEX = "model_index.json"

#: Where a container of a serving pod finds the weights cache, the volume of a claim that is its
#: source or its projector's, its run folder, the engine's key.
MODELS_DIR = "/models"
SOURCE_DIR = "/source"
PROJECTOR_DIR = "/projector"
RUN_DIR = "/run/pumas"
ENGINE_KEY_FILE = "engine-key"
TERMINATION_LOG = "termination-log"


def pod_in_flight(slots: int) -> int:
    """Calls that one serving pod takes at once, those that wait for a slot included.

    The router admits no more and the engine has this many HTTP threads and a few for probes:
    fewer threads than open calls, and the engine's `/health` starves exactly under load.
    """
    return 4 * slots + 16
