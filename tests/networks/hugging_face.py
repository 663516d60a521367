"""hugging_face.py - models of the package transformers, two layers of small width with the options that they come with."""

from __future__ import annotations

import torch
import transformers as hf

from networks.registry import Called, Network, ids, network, numbers, open_mask

WIDTH, HEADS, LAYERS, VOCABULARY, TOKENS = 64, 4, 2, 200, 32

SMALL = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS, "vocab_size": VOCABULARY}
INNER = {**SMALL, "intermediate_size": 128}
LLAMA = {**INNER, "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "use_cache": False}


def text(model: torch.nn.Module, part: str = "logits", mask: bool = True) -> Network:
    """A model that reads ids, and a mask that hides none of them."""
    keywords = ("input_ids", "attention_mask") if mask else ("input_ids",)
    inputs = (ids(VOCABULARY - 2, 2, TOKENS) + 2, open_mask(2, TOKENS))
    return Network(Called(model, keywords, part), inputs[: len(keywords)])


def both(model: torch.nn.Module) -> Network:
    """An encoder and a decoder."""
    inputs = (ids(VOCABULARY - 2, 2, TOKENS) + 2, ids(VOCABULARY - 2, 2, 16) + 2)
    return Network(Called(model, ("input_ids", "decoder_input_ids"), "logits"), inputs)


def image(model: torch.nn.Module, side: int, part: str = "logits") -> Network:
    return Network(Called(model, ("pixel_values",), part), (numbers(2, 3, side, side),))


network("hf/bert_seqcls")(lambda: text(hf.BertForSequenceClassification(hf.BertConfig(**INNER))))
network("hf/roberta")(lambda: text(hf.RobertaForMaskedLM(hf.RobertaConfig(**INNER))))
network("hf/distilbert")(
    lambda: text(hf.DistilBertForMaskedLM(hf.DistilBertConfig(dim=WIDTH, n_heads=HEADS, n_layers=LAYERS, hidden_dim=128, vocab_size=VOCABULARY)))
)
network("hf/albert")(lambda: text(hf.AlbertForMaskedLM(hf.AlbertConfig(**INNER, embedding_size=32))))
network("hf/electra")(lambda: text(hf.ElectraForMaskedLM(hf.ElectraConfig(**INNER, embedding_size=32))))
network("hf/deberta_v2")(
    lambda: text(hf.DebertaV2ForMaskedLM(hf.DebertaV2Config(**INNER, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=16)))
)
network("hf/gpt2")(
    lambda: text(hf.GPT2LMHeadModel(hf.GPT2Config(n_embd=WIDTH, n_head=HEADS, n_layer=LAYERS, vocab_size=VOCABULARY, n_positions=64, use_cache=False)))
)
network("hf/gpt_neo")(
    lambda: text(
        hf.GPTNeoForCausalLM(
            hf.GPTNeoConfig(hidden_size=WIDTH, num_heads=HEADS, num_layers=2, attention_types=[[["global", "local"], 1]], vocab_size=VOCABULARY, max_position_embeddings=64, use_cache=False)
        )
    )
)
network("hf/opt")(
    lambda: text(hf.OPTForCausalLM(hf.OPTConfig(**SMALL, ffn_dim=128, word_embed_proj_dim=WIDTH, max_position_embeddings=64, use_cache=False)))
)
network("hf/llama")(lambda: text(hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA))))
network("hf/qwen2")(lambda: text(hf.Qwen2ForCausalLM(hf.Qwen2Config(**LLAMA))))
network("hf/mistral")(lambda: text(hf.MistralForCausalLM(hf.MistralConfig(**LLAMA))))
network("hf/gemma")(lambda: text(hf.GemmaForCausalLM(hf.GemmaConfig(**LLAMA, head_dim=16))))
network("hf/gemma2")(lambda: text(hf.Gemma2ForCausalLM(hf.Gemma2Config(**LLAMA, head_dim=16))))
network("hf/phi")(lambda: text(hf.PhiForCausalLM(hf.PhiConfig(**LLAMA))))
network("hf/bloom")(lambda: text(hf.BloomForCausalLM(hf.BloomConfig(hidden_size=WIDTH, n_head=HEADS, n_layer=LAYERS, vocab_size=VOCABULARY, use_cache=False))))
network("hf/falcon")(lambda: text(hf.FalconForCausalLM(hf.FalconConfig(**SMALL, use_cache=False))))
network("hf/bart")(
    lambda: both(
        hf.BartForConditionalGeneration(
            hf.BartConfig(
                d_model=WIDTH, encoder_layers=1, decoder_layers=1, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
                encoder_ffn_dim=128, decoder_ffn_dim=128, vocab_size=VOCABULARY, max_position_embeddings=64, use_cache=False,
            )
        )
    )
)
network("hf/t5")(
    lambda: both(
        hf.T5ForConditionalGeneration(hf.T5Config(d_model=WIDTH, d_kv=16, d_ff=128, num_layers=1, num_decoder_layers=1, num_heads=HEADS, vocab_size=VOCABULARY, use_cache=False))
    )
)
network("hf/mamba")(lambda: text(hf.MambaForCausalLM(hf.MambaConfig(hidden_size=32, num_hidden_layers=1, vocab_size=VOCABULARY, use_cache=False)), mask=False))
network("hf/mamba2")(
    lambda: text(
        hf.Mamba2ForCausalLM(hf.Mamba2Config(hidden_size=32, num_heads=4, head_dim=16, n_groups=1, state_size=8, num_hidden_layers=1, vocab_size=VOCABULARY, chunk_size=8, use_cache=False)),
        mask=False,
    )
)
network("hf/rwkv")(
    lambda: text(hf.RwkvForCausalLM(hf.RwkvConfig(hidden_size=32, num_hidden_layers=2, attention_hidden_size=32, vocab_size=VOCABULARY, use_cache=False)), mask=False)
)
network("hf/xlnet")(lambda: text(hf.XLNetForSequenceClassification(hf.XLNetConfig(d_model=WIDTH, n_layer=LAYERS, n_head=HEADS, d_inner=128, vocab_size=VOCABULARY))))
network("hf/longformer")(lambda: text(hf.LongformerForMaskedLM(hf.LongformerConfig(**INNER, attention_window=8, max_position_embeddings=66))))
network("hf/vit")(lambda: image(hf.ViTForImageClassification(hf.ViTConfig(**{**INNER, "image_size": 32, "patch_size": 8})), 32))
network("hf/swin")(lambda: image(hf.SwinForImageClassification(hf.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)), 32))
network("hf/segformer")(
    lambda: image(
        hf.SegformerForSemanticSegmentation(hf.SegformerConfig(depths=[1, 1], num_encoder_blocks=2, hidden_sizes=[16, 32], num_attention_heads=[1, 2], sr_ratios=[4, 2], patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2], decoder_hidden_size=32)),
        64,
    )
)
network("hf/wav2vec2")(
    lambda: Network(
        Called(
            hf.Wav2Vec2ForCTC(
                hf.Wav2Vec2Config(
                    **{**INNER, "vocab_size": 32}, conv_dim=(32, 32), conv_stride=(5, 4), conv_kernel=(10, 8), num_feat_extract_layers=2,
                    num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, mask_time_prob=0.0, layerdrop=0.0,
                )
            ),
            ("input_values",),
            "logits",
        ),
        (numbers(2, 1600),),
    )
)
network("hf/detr")(
    lambda: image(
        hf.DetrForObjectDetection(
            hf.DetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=hf.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], out_features=["stage2"]), d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=10)
        ),
        64,
    )
)


@network("hf/clip")
def clip() -> Network:
    small = {"hidden_size": WIDTH, "intermediate_size": 128, "num_attention_heads": HEADS, "num_hidden_layers": 1}
    words = hf.CLIPTextConfig(**small, vocab_size=VOCABULARY, max_position_embeddings=TOKENS, eos_token_id=2, bos_token_id=0)
    pictures = hf.CLIPVisionConfig(**small, image_size=32, patch_size=8)
    config = hf.CLIPConfig(text_config=words.to_dict(), vision_config=pictures.to_dict(), projection_dim=32)
    inputs = (ids(VOCABULARY, 2, TOKENS), numbers(2, 3, 32, 32), open_mask(2, TOKENS))
    return Network(Called(hf.CLIPModel(config), ("input_ids", "pixel_values", "attention_mask"), "logits_per_image"), inputs)


network("hf/mixtral")(lambda: text(hf.MixtralForCausalLM(hf.MixtralConfig(**LLAMA, num_local_experts=4))))


@network("hf/time_series_patchtst")
def patch_tst() -> Network:
    config = hf.PatchTSTConfig(
        num_input_channels=3, context_length=32, patch_length=8, patch_stride=8, prediction_length=8, d_model=32, num_attention_heads=4,
        num_hidden_layers=2, ffn_dim=64,
    )  # fmt: skip
    return Network(Called(hf.PatchTSTForPrediction(config), ("past_values",), "prediction_outputs"), (numbers(2, 32, 3),))


@network("hf/whisper_tiny")
def whisper() -> Network:
    config = hf.WhisperConfig(
        d_model=WIDTH, encoder_layers=1, decoder_layers=1, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=128,
        decoder_ffn_dim=128, vocab_size=VOCABULARY, max_source_positions=32, max_target_positions=32, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1, begin_suppress_tokens=None, use_cache=False,
    )  # fmt: skip
    model = Called(hf.WhisperForConditionalGeneration(config), ("input_features", "decoder_input_ids"), "logits")
    return Network(model, (numbers(2, 80, 64), ids(VOCABULARY, 2, 16)))
