"""Import a config.json: which models are known, and what each makes of tokens, cache and heads.

Only numbers and texts of the file are read. No code that it names is run, no path is followed, nothing is downloaded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from solvers.importers.checked import short
from solvers.importers.hugging_face import decoder_configs
from solvers.importers.hugging_face.decoder import write_decoder
from solvers.importers.hugging_face.encoder_decoders import EncoderDecoder, write_encoder_alone, write_encoder_decoder
from solvers.importers.hugging_face.encoders import (
    Encoder,
    ImageEncoder,
    TextEncoder,
    write_image_encoder,
    write_text_encoder,
)
from solvers.importers.hugging_face.fields import Fields, parse_config
from solvers.importers.hugging_face.writer import Writer
from solvers.importers.imported import Imported, imported
from solvers.importers.limits import MAX_HEADS, MAX_LABELS, MAX_LAYERS, MAX_TOKENS, MAX_VOCABULARY, MAX_WIDTH
from solvers.importers.network import Network
from solvers.importers.workload import USUAL_TOKENS, Devices, Mode, Workload
from solvers.model.errors import SourceError
from solvers.quantities import count

WORD_ENCODER_DEFAULTS = {"type_vocab_size": 2, "tie_word_embeddings": True}

DEFAULTS: dict[str, dict[str, Any]] = {
    **decoder_configs.DEFAULTS,
    "gemma3": decoder_configs.DEFAULTS["gemma3_text"],
    "bert": WORD_ENCODER_DEFAULTS,
    "roberta": WORD_ENCODER_DEFAULTS,
    "vit": {"qkv_bias": True, "num_channels": 3},
    "t5": {
        "feed_forward_proj": "relu",
        "relative_attention_num_buckets": 32,
        "tie_word_embeddings": True,
        "d_kv": 64,
    },
    "whisper": {"tie_word_embeddings": True, "classifier_proj_size": 256},
}
"""Of each known `model_type`, what `transformers` 5 takes where a config leaves a field out."""

MODEL_TYPES = tuple(DEFAULTS)

IGNORED = {
    "auto_map": "names code of its own, which is not run: the model is taken to be an ordinary {kind}",
    "trust_remote_code": "asks to trust code of its own, which is not run: the model is taken to be an ordinary {kind}",
    "quantization_config": "says how its weights are quantized, which is not read; --precision says how they are",
    "vision_config": "has a part for images, which is left out: only the text model is imported",
}
"""Fields that are not read, and what is said where a config has them."""


@dataclass
class _Reading:
    """A config on its way to a network: its fields, what is asked of it, and what is assumed on the way."""

    kind: str
    fields: Fields
    workload: Workload
    name: str
    architecture: str | None
    said: list[str] = field(default_factory=list)
    num_tokens: int | None = None

    def writer(self) -> Writer:
        return Writer(self.name, self.workload.batch, self.workload.mode, self.workload.tied)

    def head(self, known: Mapping[str, str], usual: str) -> str:
        """Return which of the known heads the model has, by the name of its class in the config."""
        if self.architecture is not None and self.architecture in known:
            return known[self.architecture]
        named = "no 'architectures'" if self.architecture is None else f"the architecture {short(self.architecture)}"
        self.said.append(f"The config has {named}; the model is taken to be a {usual}.")
        return known[usual]

    def tokens(self, positions: int | None, *, learned: bool) -> int:
        """Return the tokens of a sequence; SourceError where a table of positions has fewer rows."""
        self.num_tokens = self._length("--sequence", self.workload.sequence, positions, learned=learned)
        return self.num_tokens

    def context(self, positions: int | None, *, learned: bool) -> int:
        """Return the tokens of the cache that a decoded token finds."""
        most = None if positions is None else positions - 1
        return self._length("--context", self.workload.context, most, learned=learned)

    def _length(self, option: str, asked: int | None, positions: int | None, *, learned: bool) -> int:
        if asked is None:
            usual = USUAL_TOKENS if positions is None else max(1, min(USUAL_TOKENS, positions))
            self.said.append(f"{option} is taken to be {count(usual)} tokens.")
            return usual
        if positions is not None and asked > positions:
            told = f"{option} is {count(asked)}, and the model has positions for {count(positions)}"
            if learned:
                raise SourceError(f"{told}; give at most that.")
            self.said.append(f"{told}: it would run beyond what its config allows for.")
        return asked

    def no_sequence(self) -> None:
        if self.workload.sequence is not None:
            raise SourceError(
                f"--sequence says nothing here: {self.kind} in mode {self.workload.mode} has no sequence to choose; "
                "leave it out."
            )

    def no_decode(self) -> None:
        if self.workload.mode is Mode.DECODE:
            raise SourceError(
                f"This {self.kind} generates no tokens, so it has no --mode decode; give prefill or training."
            )


def import_config(
    config: str | bytes | Mapping[str, Any], workload: Workload, devices: Devices, source: str, title: str = ""
) -> Imported:
    """Return the graph of the model that a config.json describes; SourceError, in one sentence, where it cannot be.

    `source` and `title` are names for people: where the config is from, and what the model is called.
    """
    raw = config if isinstance(config, Mapping) else parse_config(config)
    kind = raw.get("model_type")
    if not isinstance(kind, str) or kind not in DEFAULTS:
        what = "is missing" if kind is None else f"is {short(kind)}, which is not known"
        raise SourceError(f"config.json: 'model_type' {what}; {_instead(raw)}this imports {', '.join(MODEL_TYPES)}.")
    fields = Fields(raw, DEFAULTS[kind])
    text = raw.get("text_config")
    if kind == "gemma3" and text is not None:
        if not isinstance(text, Mapping):
            raise SourceError(
                f"config.json: 'text_config' is {short(text)}; give an object with the text model's fields."
            )
        fields = Fields(text, DEFAULTS[kind], "text_config.")
    reading = _Reading(kind, fields, workload, "", _architecture(raw))
    network = READERS.get(kind, _decoder)(reading)
    said = [f"The config {told.format(kind=kind)}." for name, told in IGNORED.items() if name in raw]
    if fields.assumed:
        values = ", ".join(
            f"{name} {value if isinstance(value, str) else str(value).lower()}"
            for name, value in fields.assumed.items()
        )
        said.append(f"Not in the config, so as transformers has it: {values}.")
    named = f"{title or kind}, {workload.mode}"
    tokens = None if workload.mode is Mode.DECODE else reading.num_tokens
    network = replace(network, name=named, unit=_unit(kind, workload.mode), tokens_per_sample=tokens)
    return imported(network, workload, devices, source, (*reading.said, *said))


def _instead(raw: Mapping[str, Any]) -> str:
    """Return what to import of a model of several parts of which one is known."""
    text = raw.get("text_config")
    inner = text.get("model_type") if isinstance(text, Mapping) else None
    if not isinstance(inner, str) or inner not in DEFAULTS:
        return ""
    return f"its 'text_config' is a {inner}, which a config.json of that object alone brings in; "


def _unit(kind: str, mode: Mode) -> str:
    """Return what a micro-batch is counted in: decoding makes one token of each sequence."""
    if mode is Mode.DECODE:
        return "tokens"
    return "images" if kind == "vit" else "sequences"


def _architecture(raw: Mapping[str, Any]) -> str | None:
    """Return the name of the model's class."""
    names = raw.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None


CAUSAL = {
    "llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma2": "Gemma2",
    "gemma3_text": "Gemma3", "gpt_neox": "GPTNeoX", "phi3": "Phi3", "mixtral": "Mixtral", "qwen2_moe": "Qwen2Moe",
    "qwen3_moe": "Qwen3Moe", "deepseek_v3": "DeepseekV3",
}  # fmt: skip
"""How the classes of a `model_type` begin."""


def _decoder(reading: _Reading) -> Network:
    kind, fields, mode = reading.kind, reading.fields, reading.workload.mode
    if kind == "gpt2":
        if fields.raw.get("add_cross_attention"):
            raise SourceError(
                "config.json: 'add_cross_attention' is set; a gpt2 that reads an encoder is not imported."
            )
        heads = {"GPT2LMHeadModel": "words", "GPT2Model": ""} | _classifiers("GPT2")
    elif kind == "gemma3":
        heads = {"Gemma3ForConditionalGeneration": "words", "Gemma3ForCausalLM": "words"}
    else:
        start = CAUSAL[kind]
        heads = {f"{start}ForCausalLM": "words", f"{start}Model": "", f"{start}TextModel": ""}
        heads |= _classifiers(start) | _classifiers(f"{start}Text")
    head = reading.head(heads, next(iter(heads)))
    family = "gemma3_text" if kind == "gemma3" else kind
    shape = decoder_configs.decoder_of(family, fields, kind, has_head=head == "words")
    if head not in ("words", ""):
        reading.no_decode()
        # A classifier of whole sequences scores every token, without a bias, and takes the last one's scores.
        shape = replace(shape, labels=_labels(reading, head), label_bias=head != "sequence", mtp=0)
    learned = bool(shape.positions)
    positions = shape.positions or fields.optional_count("max_position_embeddings", most=MAX_TOKENS)
    writer = reading.writer()
    tokens = context = 1
    if mode is Mode.DECODE:
        reading.no_sequence()
        context = reading.context(positions, learned=learned)
    else:
        tokens = reading.tokens(positions, learned=learned)
    if any(mixture is not None for mixture in shape.mixtures):
        reading.said.append("Tokens spread evenly over the experts, and the experts of a layer stay together.")
    if shape.latent is not None:
        reading.said.append(
            "The cache keeps compressed keys and values; a decoded token attends to them as they are, a prompt expands "
            "them."
        )
    if shape.mtp and mode is Mode.TRAINING and shape.has_head:
        reading.said.append(
            f"Training has the model's {shape.mtp} module(s) that predict further tokens, which use its embedding and "
            "output; set 'num_nextn_predict_layers' to 0 to leave them out."
        )
    elif shape.mtp:
        reading.said.append("Modules that predict further tokens (num_nextn_predict_layers) are for training alone.")
    if any(window is not None and window < max(tokens, context + 1) for window in shape.windows):
        reading.said.append("Layers with a sliding window attend to it alone, and their cache keeps no more.")
    if mode is Mode.PREFILL and shape.has_head:
        reading.said.append(
            "Logits are computed for every token of the prompt, though generating needs the last alone."
        )
    write_decoder(writer, shape, tokens, context)
    return writer.network()


def _classifiers(start: str) -> dict[str, str]:
    """Return the classes of a `model_type` that label sequences, tokens, or where an answer starts and ends."""
    return {
        f"{start}ForSequenceClassification": "sequence",
        f"{start}ForTokenClassification": "tokens",
        f"{start}ForQuestionAnswering": "span",
    }


def _text_encoder(reading: _Reading) -> Network:
    kind, fields = reading.kind, reading.fields
    reading.no_decode()
    if fields.raw.get("add_cross_attention"):
        raise SourceError(f"config.json: 'add_cross_attention' is set; a {kind} that reads an encoder is not imported.")
    start = "Bert" if kind == "bert" else "Roberta"
    heads = {f"{start}ForMaskedLM": "words", f"{start}ForCausalLM": "words", f"{start}Model": "pooler"}
    heads |= {"BertLMHeadModel": "words"} if kind == "bert" else {}
    heads |= _classifiers(start) | {f"{start}ForMultipleChoice": "pooler choice"}
    if kind == "bert":
        heads |= {"BertForPreTraining": "words pooler pair", "BertForSequenceClassification": "pooler sequence"}
        heads["BertForNextSentencePrediction"] = "pooler pair"
    head = reading.head(heads, f"{start}ForMaskedLM").split()
    rows = fields.count("max_position_embeddings", most=MAX_TOKENS, least=3)
    shape = TextEncoder(
        name=kind,
        encoder=_blocks(fields),
        vocabulary=fields.count("vocab_size", most=MAX_VOCABULARY),
        positions=rows,
        types=fields.count("type_vocab_size", most=MAX_LABELS),
        has_pooler="pooler" in head,
        predicts_words="words" in head,
        labels=_labels(reading, head[-1]) if head[-1] in (*SIZED_HEADS, "sequence", "tokens") else 0,
        labels_tokens=head[-1] in ("tokens", "span"),
        tied=fields.flag("tie_word_embeddings"),
    )
    # RoBERTa numbers positions from the padding token's number on, so that its first two rows are for padding.
    tokens = reading.tokens(rows - 2 if kind == "roberta" else rows, learned=True)
    writer = reading.writer()
    write_text_encoder(writer, shape, tokens)
    return writer.network()


def _blocks(fields: Fields, *, norm_first: bool = False) -> Encoder:
    width, heads = fields.count("hidden_size", most=MAX_WIDTH), fields.count("num_attention_heads", most=MAX_HEADS)
    _divides(width, heads, "hidden_size", "num_attention_heads")
    return Encoder(
        width,
        fields.count("num_hidden_layers", most=MAX_LAYERS),
        heads,
        fields.count("intermediate_size", most=MAX_WIDTH),
        qkv_bias=fields.flag("qkv_bias") if norm_first else True,
        norm_first=norm_first,
    )


def _divides(width: int, heads: int, field_name: str, heads_name: str) -> None:
    if width % heads:
        raise SourceError(
            f"config.json: '{field_name}' is {width} and '{heads_name}' {heads}; the first must be a multiple of the "
            "second."
        )


SIZED_HEADS = {"span": 2, "pair": 2, "choice": 1}
"""Labels of heads that have as many in every model: of an answer where it starts and ends, of a choice its score."""


def _labels(reading: _Reading, head: str = "sequence") -> int:
    """Return the number of labels of a classifier."""
    if head in SIZED_HEADS:
        return SIZED_HEADS[head]
    names = reading.fields.raw.get("id2label")
    if isinstance(names, Mapping) and 0 < len(names) <= MAX_LABELS:
        return len(names)
    known = reading.fields.optional_count("num_labels", most=MAX_LABELS)
    if known is None:
        reading.said.append("The config does not say how many labels there are; there are taken to be 2.")
    return known or 2


def _image_encoder(reading: _Reading) -> Network:
    fields = reading.fields
    reading.no_decode()
    reading.no_sequence()
    head = reading.head({"ViTForImageClassification": "labels", "ViTModel": "pooler"}, "ViTForImageClassification")
    encoder = _blocks(fields, norm_first=True)
    image, patch = fields.count("image_size", most=2**14), fields.count("patch_size", most=2**12)
    if patch > image:
        raise SourceError(f"config.json: 'patch_size' is {patch}, more than the 'image_size' of {image}.")
    pooler = 0 if head == "labels" else fields.optional_count("pooler_output_size", most=MAX_WIDTH) or encoder.width
    shape = ImageEncoder(
        name=reading.kind,
        encoder=encoder,
        patches=(image // patch) ** 2,
        patch_inputs=fields.count("num_channels", most=MAX_WIDTH) * patch**2,
        pooler_width=pooler,
        labels=_labels(reading) if head == "labels" else 0,
    )
    writer = reading.writer()
    write_image_encoder(writer, shape)
    return writer.network()


def _t5(reading: _Reading) -> Network:
    fields = reading.fields
    known = {
        "T5ForConditionalGeneration": "words", "T5WithLMHeadModel": "words", "T5Model": "", "T5EncoderModel": "encoder",
        "T5ForSequenceClassification": "sequence", "T5ForTokenClassification": "tokens",
        "T5ForQuestionAnswering": "span",
    }  # fmt: skip
    head = reading.head(known, "T5ForConditionalGeneration")
    width, layers = fields.count("d_model", most=MAX_WIDTH), fields.count("num_layers", most=MAX_LAYERS)
    heads, wide = fields.count("num_heads", most=MAX_HEADS), fields.count("d_ff", most=MAX_WIDTH)
    shape = EncoderDecoder(
        name="t5",
        width=width,
        inner=heads * fields.count("d_kv", most=MAX_WIDTH),
        vocabulary=fields.count("vocab_size", most=MAX_VOCABULARY),
        encoder_layers=layers,
        decoder_layers=fields.optional_count("num_decoder_layers", most=MAX_LAYERS) or layers,
        encoder_heads=heads,
        decoder_heads=heads,
        encoder_feed_forward=wide,
        decoder_feed_forward=wide,
        gated=fields.text("feed_forward_proj").startswith("gated"),
        tied=fields.flag("tie_word_embeddings"),
        buckets=fields.count("relative_attention_num_buckets", most=MAX_WIDTH),
        head=head,
        labels=_labels(reading, head) if head in ("sequence", "tokens", "span") else 0,
    )
    usual = fields.optional_count("n_positions", most=MAX_TOKENS)
    if head not in ("words", ""):
        reading.no_decode()
    if head in ("encoder", "tokens"):
        writer = reading.writer()
        write_encoder_alone(writer, shape, reading.tokens(usual, learned=False))
        return writer.network()
    return _encoder_decoder(reading, shape, reading.tokens(usual, learned=False), usual, learned=False)


def _whisper(reading: _Reading) -> Network:
    fields = reading.fields
    known = {
        "WhisperForConditionalGeneration": "words", "WhisperModel": "", "WhisperForAudioClassification": "sound",
    }  # fmt: skip
    head = reading.head(known, "WhisperForConditionalGeneration")
    width = fields.count("d_model", most=MAX_WIDTH)
    heads = [fields.count(f"{part}_attention_heads", most=MAX_HEADS) for part in ("encoder", "decoder")]
    for part, number in zip(("encoder", "decoder"), heads, strict=True):
        _divides(width, number, "d_model", f"{part}_attention_heads")
    frames = fields.count("max_source_positions", most=MAX_TOKENS)
    shape = EncoderDecoder(
        name="whisper",
        width=width,
        inner=width,
        vocabulary=fields.count("vocab_size", most=MAX_VOCABULARY),
        encoder_layers=fields.count("encoder_layers", most=MAX_LAYERS),
        decoder_layers=fields.count("decoder_layers", most=MAX_LAYERS),
        encoder_heads=heads[0],
        decoder_heads=heads[1],
        encoder_feed_forward=fields.count("encoder_ffn_dim", most=MAX_WIDTH),
        decoder_feed_forward=fields.count("decoder_ffn_dim", most=MAX_WIDTH),
        tied=fields.flag("tie_word_embeddings"),
        is_whisper=True,
        bins=fields.count("num_mel_bins", most=MAX_WIDTH),
        frames=frames,
        positions=fields.count("max_target_positions", most=MAX_TOKENS),
        head=head,
        labels=_labels(reading) if head == "sound" else 0,
        projected=fields.count("classifier_proj_size", most=MAX_WIDTH) if head == "sound" else 0,
    )
    if head == "sound":
        return _sound_classifier(reading, shape)
    reading.said.append(
        f"The encoder hears {count(frames)} frames, the most that it can; --sequence is of the decoder."
    )
    if reading.workload.mode is Mode.DECODE:
        reading.no_sequence()
    return _encoder_decoder(reading, shape, frames, shape.positions, learned=True)


def _sound_classifier(reading: _Reading, shape: EncoderDecoder) -> Network:
    reading.no_decode()
    reading.no_sequence()
    if reading.fields.raw.get("use_weighted_layer_sum"):
        raise SourceError(
            "config.json: 'use_weighted_layer_sum' is set; a whisper that labels a sum of its layers is not imported."
        )
    reading.said.append(f"The encoder hears {count(shape.frames)} frames, the most that it can.")
    writer = reading.writer()
    write_encoder_alone(writer, shape, shape.frames)
    return writer.network()


def _encoder_decoder(
    reading: _Reading, shape: EncoderDecoder, encoded: int, positions: int | None, *, learned: bool
) -> Network:
    writer, tokens, context = reading.writer(), encoded, 1
    if reading.workload.mode is Mode.DECODE:
        context = reading.context(positions, learned=learned)
        reading.said.append(
            "The encoder has run, and the decoder's layers have its keys and values in their cache: neither the "
            "encoder nor the weights of these products are part of this graph."
        )
    elif shape.is_whisper:
        tokens = reading.tokens(positions, learned=learned)
    else:
        reading.said.append("The decoder works on as many tokens as the encoder.")
    write_encoder_decoder(writer, shape, encoded, tokens, context)
    return writer.network()


READERS: dict[str, Callable[[_Reading], Network]] = {
    "bert": _text_encoder,
    "roberta": _text_encoder,
    "vit": _image_encoder,
    "t5": _t5,
    "whisper": _whisper,
}
"""Those that are not decoders alone."""
