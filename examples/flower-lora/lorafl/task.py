"""The model: LoRA on a small BERT, trained by the Trainer of Hugging Face."""

import tempfile

import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EvalPrediction,
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainingArguments,
)

from lorafl.data import WORDS, Examples

LORA = LoraConfig(task_type=TaskType.SEQ_CLS, r=8, target_modules=["query", "value"])


def build() -> PreTrainedModel:
    """Build the model before the first round: the same everywhere.

    Small and untrained, so that nothing is downloaded; take
    ``AutoModelForSequenceClassification.from_pretrained(NAME)`` for a real one.
    """
    torch.manual_seed(0)
    shape = BertConfig(
        vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=128, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
    return get_peft_model(BertForSequenceClassification(shape), LORA)


def trainer(model: PreTrainedModel, steps: int = 1, data: Examples | None = None) -> Trainer:
    """Return the Trainer; it writes and prints nothing."""
    arguments = TrainingArguments(
        output_dir=tempfile.gettempdir(), max_steps=steps, learning_rate=0.01, seed=0,
        lr_scheduler_type="constant", per_device_train_batch_size=32, save_strategy="no",
        logging_strategy="no", report_to="none", disable_tqdm=True, dataloader_pin_memory=False,
    )
    made = Trainer(model, arguments, train_dataset=data, compute_metrics=accuracy)
    made.remove_callback(PrinterCallback)
    return made


def accuracy(outputs: EvalPrediction) -> dict[str, float]:
    """Compute the share of sentences that are understood."""
    return {"accuracy": float((outputs.predictions.argmax(1) == outputs.label_ids).mean())}


def train(model: PreTrainedModel, data: Examples, steps: int) -> PreTrainedModel:
    """Take a few steps; only the adapter and the classifier change."""
    trainer(model, steps, data).train()
    return model


def evaluate(model: PreTrainedModel, data: Examples) -> dict[str, float]:
    """Measure "eval_loss" and "eval_accuracy"."""
    return trainer(model).evaluate(data)
