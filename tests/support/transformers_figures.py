"""Parameters and flops of models as `transformers` and torch's flop counter have them; run by a Python that has both.

Reads a JSON list of questions on stdin, {"config", "flops"?: {"batch", "sequence", "training"?, "decode"?}}, and prints
one of answers, {"parameters", "forward"?, "backward"?, "decode"?}; decode is of one token after the sequence. Models
are made without weights, on the meta device; to count their flops, with random ones, since masks and the choice of
experts look at numbers.
"""

import json
import sys
from typing import Any

ENCODERS_ALONE = ("T5EncoderModel", "T5ForTokenClassification", "WhisperForAudioClassification")


def answer(question: dict[str, Any]) -> dict[str, float]:
    import torch
    import transformers
    from torch.utils.flop_counter import FlopCounterMode

    fields = dict(question["config"])
    kind = fields.pop("model_type")
    architecture = fields["architectures"][0]
    labels = {"num_labels": fields.pop("num_labels")} if "num_labels" in fields else {}
    config = transformers.AutoConfig.for_model(kind, **fields, **labels)
    model_class = getattr(transformers, architecture)
    experts = any("experts" in name for name in fields)
    wanted = question.get("flops")
    device = "cpu" if wanted else "meta"
    config._attn_implementation = "eager"
    if experts:
        config._experts_implementation = "eager"
    with torch.device(device):
        model = model_class(config)
    model.eval()
    found: dict[str, float] = {"parameters": sum(p.numel() for p in model.parameters())}
    if not wanted:
        return found
    batch, sequence = wanted["batch"], wanted["sequence"]
    is_encoder = kind in ("vit", "bert", "roberta") or architecture in ENCODERS_ALONE
    tokens = torch.zeros((batch, sequence or 1), dtype=torch.long, device=device)
    if kind == "vit":
        inputs = {"pixel_values": torch.zeros((batch, 3, config.image_size, config.image_size), device=device)}
    elif kind == "whisper":
        spectrum = (batch, config.num_mel_bins, 2 * config.max_source_positions)
        inputs = {"input_features": torch.zeros(spectrum, device=device)}
        if not is_encoder:
            inputs["decoder_input_ids"] = tokens
    elif kind == "t5" and not is_encoder:
        tokens[:, -1] = config.eos_token_id
        inputs = {"input_ids": tokens, "decoder_input_ids": tokens}
    elif architecture.endswith("ForMultipleChoice"):
        inputs = {"input_ids": tokens[:, None]}
    else:
        inputs = {"input_ids": tokens}
        if experts:
            torch.manual_seed(0)
            inputs = {"input_ids": torch.randint(config.vocab_size, (batch, sequence))}
    takes_cache = not is_encoder
    with FlopCounterMode(display=False) as counter:
        output = model(**inputs, use_cache=False) if takes_cache else model(**inputs)
    found["forward"] = counter.get_total_flops()
    if wanted.get("decode"):
        with torch.no_grad():
            before = model(**inputs, use_cache=True)
            if "decoder_input_ids" in inputs:
                next_inputs = {
                    "encoder_outputs": (before.encoder_last_hidden_state,), "decoder_input_ids": tokens[:, -1:]
                }  # fmt: skip
            else:
                next_inputs = {"input_ids": inputs["input_ids"][:, -1:]}
            with FlopCounterMode(display=False) as counter:
                model(**next_inputs, past_key_values=before.past_key_values, use_cache=True)
        found["decode"] = counter.get_total_flops()
    if wanted.get("training"):
        results = [value for value in output.values() if torch.is_tensor(value) and value.requires_grad]
        total = sum(value.sum() for value in results)
        with FlopCounterMode(display=False) as counter:
            total.backward()
        found["backward"] = counter.get_total_flops()
    return found


if __name__ == "__main__":
    print(json.dumps([answer(question) for question in json.load(sys.stdin)]))
