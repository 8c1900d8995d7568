#include "recipe/translate/translate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "support/matches.h"
#include "support/refusal.h"

namespace echelon::recipe {
namespace {

Translation of(const std::string& name, const std::string& text, int ranks = 1) {
  const std::vector<Setting> settings = read_settings(name, text);
  return translate(trainer_of(name, settings), settings, ranks);
}

std::string value(const Translation& translation, const std::string& key) {
  for (const DraftLine& line : translation.lines)
    if (line.key == key) return line.value;
  return "";
}

bool remarks(const Translation& translation, const std::string& text) {
  return std::any_of(translation.remarks.begin(), translation.remarks.end(),
                     [&](const std::string& remark) { return remark.find(text) != remark.npos; });
}

/// The least that AutoModel takes.
const std::string kAutoModel =
    "step_scheduler: {max_steps: 10}\nmodel: {pretrained_model_name_or_path: org/m}\n";

TEST(Translate, ReadsAxolotl) {
  const Translation made = of("a.yml",
                              "base_model: org/Small-1B\n"
                              "adapter: qlora\nlora_r: 4\nlora_target_modules: [q_proj, '*_proj']\n"
                              "datasets:\n  - path: org/chats\n    type: chat_template\n"
                              "val_set_size: 0.05\nsequence_len: 2_048\n"
                              "micro_batch_size: 2\ngradient_accumulation_steps: 3\nmax_steps: 100\n"
                              "warmup_ratio: 0.1\nlearning_rate: 2e-4\noptimizer: paged_adamw_8bit\n"
                              "bf16: auto\nwandb_project:\nwandb_name: x\nnot_known: 7\n",
                              4);
  EXPECT_EQ(value(made, "model.from"), "\"Small-1B\"");
  EXPECT_EQ(value(made, "lora.rank"), "4");
  EXPECT_EQ(value(made, "lora.modules"), "[\"q_proj\", \"*_proj\"]");
  EXPECT_EQ(value(made, "data.kind"), "chat");
  EXPECT_EQ(value(made, "data.seq_len"), "2048");
  EXPECT_EQ(value(made, "train.global_batch_size"), "24") << "2 x 3 passes x 4 ranks";
  EXPECT_EQ(value(made, "schedule.warmup_steps"), "10");
  EXPECT_EQ(value(made, "schedule.kind"), "warmup_cosine") << "its default";
  EXPECT_EQ(value(made, "optim.betas"), "[0.9, 0.999]") << "its default, which is not ours";
  EXPECT_EQ(value(made, "precision.preset"), "bf16_fp32_reduce");
  EXPECT_TRUE(remarks(made,
                      "org/chats; download it, then: echelon prepare FILES --format chat --tokenizer "
                      "Small-1B --output data --validation-fraction 0.05"));
  EXPECT_TRUE(remarks(made, "line 15: optimizer: paged_adamw_8bit; its states are kept in fp32"));
  EXPECT_TRUE(remarks(made, "line 2: adapter: qlora"));
  EXPECT_TRUE(remarks(made, "wandb_name"));
  EXPECT_FALSE(remarks(made, "wandb_project")) << "it has no value";
  EXPECT_TRUE(remarks(made, "line 19: not_known: 7; no equal is known"));
}

TEST(Translate, LeavesOutAdaptersThatAxolotlWouldNotMake) {
  const Translation made = of("a.yml", "base_model: m\nlora_r: 4\nlora_alpha: 8\n");
  EXPECT_EQ(value(made, "lora.rank"), "");
  EXPECT_EQ(value(made, "lora.alpha"), "");
}

TEST(Translate, ReadsTorchtitan) {
  const Translation made =
      of("t.toml",
         "[job]\ndump_folder = \"./out\"\n[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
         "[training]\nlocal_batch_size = 2  # of a GPU\nsteps = 50\nseq_len = 512\n"
         "[lr_scheduler]\nwarmup_steps = 5\n[parallelism]\ntensor_parallel_degree = 2\n"
         "pipeline_parallel_degree = 1\n[quantize.linear.float8]\nfilter = [\n  'a',\n  'b'\n]\n",
         8);
  EXPECT_EQ(value(made, "model.preset"), "llama_3_1_8b");
  EXPECT_EQ(value(made, "train.global_batch_size"), "16");
  EXPECT_EQ(value(made, "schedule.sequence"), "[linear_warmup 4, constant 1, linear_decay]");
  EXPECT_EQ(value(made, "schedule.warmup_start_factor"), "0.2");
  EXPECT_EQ(value(made, "optim.lr"), "8.0e-4") << "its default";
  EXPECT_TRUE(remarks(made, "line 13: parallelism.tensor_parallel_degree: 2; there is no tensor"));
  EXPECT_FALSE(remarks(made, "pipeline_parallel_degree"));
}

TEST(Translate, SelectiveRecomputationOfTorchtitanIsOfBlocksUnlessOfOperations) {
  const auto policy = [](const std::string& section) {
    const Translation made = of("t.toml", "[job]\ndump_folder = \"o\"\n[training]\nsteps = 5\n" + section);
    return value(made, "activation_checkpointing.policy") + value(made, "activation_checkpointing.every_n");
  };
  const std::string mode = "[activation_checkpoint]\nmode = ";
  EXPECT_EQ(policy(""), "every_n2") << "its default";
  EXPECT_EQ(policy(mode + "\"selective\"\n"), "every_n2");
  EXPECT_EQ(policy(mode + "\"selective\"\nselective_ac_option = \"3\"\n"), "every_n3");
  EXPECT_EQ(policy(mode + "\"selective\"\nselective_ac_option = \"op\"\n"), "selective");
  EXPECT_EQ(policy(mode + "\"full\"\nselective_ac_option = \"3\"\n"), "full");
  EXPECT_EQ(policy(mode + "\"none\"\n"), "none");
}

TEST(Translate, TakesFp8WithOneScaleAMatrix) {
  const auto matmul = [](const std::string& name, const std::string& text) {
    return value(of(name, text), "precision.matmul");
  };
  const std::string torchtitan = "[training]\nsteps = 5\n[model]\nflavor = \"8B\"\nconverters = ";
  EXPECT_EQ(matmul("t.toml", torchtitan + "[\"float8\"]\n"), "fp8");
  EXPECT_EQ(matmul("t.toml", torchtitan + "[\"float8\"]\n[float8]\nrecipe_name = \"tensorwise\"\n"
                                          "enable_fsdp_float8_all_gather = true\n"),
            "fp8");
  EXPECT_EQ(matmul("t.toml", torchtitan + "[\"mx\"]\n"), "");
  EXPECT_EQ(matmul("n.yaml", kAutoModel + "fp8: {enabled: true}\n"), "fp8");
  EXPECT_EQ(matmul("n.yaml", kAutoModel + "fp8: {enabled: false, recipe_name: tensorwise}\n"), "");
  const Translation rowwise = of("n.yaml", kAutoModel + "fp8: {enabled: true, recipe_name: rowwise}\n");
  EXPECT_EQ(value(rowwise, "precision.matmul"), "");
  EXPECT_TRUE(remarks(rowwise, "fp8.recipe_name: rowwise; precision.matmul: fp8 has one scale a matrix"));
}

TEST(Translate, ReadsAutoModel) {
  const Translation made = of("n.yaml",
                              "step_scheduler: {global_batch_size: 32, local_batch_size: 4, max_steps: 10}\n"
                              "model: {pretrained_model_name_or_path: org/m}\n"
                              "packed_sequence: {packed_sequence_size: 1024}\n"
                              "peft: {dim: 8, target_modules: '*_proj'}\n"
                              "optimizer: {_target_: torch.optim.Adam, lr: 1.0e-5, weight_decay: 0.1}\n");
  EXPECT_EQ(value(made, "train.global_batch_size"), "32");
  EXPECT_EQ(value(made, "data.seq_len"), "1024");
  EXPECT_EQ(value(made, "lora.modules"), "[\"*_proj\"]");
  EXPECT_EQ(value(made, "optim.kind"), "");
  EXPECT_TRUE(remarks(made, "Adam's decay is part of the gradient"));
}

TEST(Translate, ReadsTrainingArguments) {
  const Translation made = of("h.json",
                              R"({"output_dir": "out", "num_train_epochs": 2.0, "learning_rate": 3e-5,
                                  "adam_beta2": 0.98, "save_steps": 0.2, "logging_steps": 0.1,
                                  "lr_scheduler_type": "linear"})");
  EXPECT_EQ(value(made, "train.epochs"), "2");
  EXPECT_EQ(value(made, "optim.betas"), "[0.9, 0.98]");
  EXPECT_EQ(value(made, "schedule.sequence"), "[linear_decay]");
  EXPECT_EQ(value(made, "train.micro_batch_size"), "8") << "its default";
  EXPECT_TRUE(remarks(made, "save_steps: 0.2; checkpoint.every_steps is a whole number"));
  EXPECT_TRUE(remarks(made, "logging_steps: 0.1; metrics.every_steps is a whole number"));
}

TEST(Translate, RoundsEpochsUpAndSaysWhatEndsWithin) {
  const auto with = [](const std::string& more) { return of("h.json", R"({"output_dir": "o", )" + more); };
  const Translation made = with(R"("num_train_epochs": 2.5})");
  EXPECT_EQ(value(made, "train.epochs"), "3");
  EXPECT_TRUE(remarks(made, "line 1: num_train_epochs: 2.5; rounded up in train.epochs; to end there, set"));
  EXPECT_FALSE(remarks(with(R"("num_train_epochs": 2.0})"), "num_train_epochs"));
  EXPECT_FALSE(remarks(with(R"("num_train_epochs": 2.5, "max_steps": 9})"), "num_train_epochs")) << "unused";
  EXPECT_EQ(value(of("a.yml", "base_model: m\nnum_epochs: 0.5\n"), "train.epochs"), "1");
}

TEST(Translate, WritesForTensorBoardWhereItIsReportedTo) {
  const auto board = [](const std::string& to) {
    const Translation made = of("h.json", R"({"output_dir": "o", "report_to": )" + to + "}");
    return value(made, "metrics.tensorboard") + (remarks(made, "`echelon metrics RUN") ? " and others" : "");
  };
  EXPECT_EQ(board(R"("tensorboard")"), "true");
  EXPECT_EQ(board(R"(["wandb", "tensorboard"])"), "true and others");
  EXPECT_EQ(board(R"("all")"), "true and others");
  EXPECT_EQ(board(R"("mlflow")"), " and others");
  EXPECT_EQ(board(R"("none")") + board(R"(["none"])") + board("[]"), "");
  EXPECT_EQ(value(of("a.yml", "base_model: m\nuse_tensorboard: true\n"), "metrics.tensorboard"), "true");
}

TEST(Translate, ReadsLlamaFactory) {
  const std::string example =
      "model_name_or_path: org/Small-1B\nstage: sft\ndo_train: true\nfinetuning_type: lora\nlora_rank: 4\n"
      "lora_target: q_proj, v_proj\nadditional_target: lm_head\ndataset: identity,alpaca_en_demo\n"
      "template: llama3\noutput_dir: saves\nper_device_train_batch_size: 1\n"
      "gradient_accumulation_steps: 8\nlearning_rate: 1.0e-4\nnum_train_epochs: 3.0\n"
      "lr_scheduler_type: cosine\nwarmup_steps: 3\nbf16: true\nval_size: 0.1\neval_strategy: steps\n"
      "eval_steps: 500\n";
  const Translation made = of("x.yaml", example, 2);
  EXPECT_EQ(value(made, "lora.rank") + ' ' + value(made, "lora.alpha"), "4 8") << "twice the rank";
  EXPECT_EQ(value(made, "lora.modules"), "[\"q_proj\", \"v_proj\"]");
  EXPECT_EQ(value(made, "lora.also_train"), "[\"*lm_head\"]") << "as peft means it";
  EXPECT_EQ(value(made, "data.seq_len"), "2048") << "its default";
  EXPECT_EQ(value(made, "activation_checkpointing.policy"), "full") << "its default";
  EXPECT_EQ(value(made, "train.global_batch_size"), "16");
  EXPECT_EQ(value(made, "schedule.warmup_steps"), "3");
  EXPECT_EQ(value(made, "train.validate_every_steps"), "500");
  EXPECT_TRUE(remarks(made,
                      "echelon prepare FILES --format chat --tokenizer Small-1B --output data "
                      "--validation-fraction 0.1"));
  EXPECT_TRUE(remarks(made, "line 8: dataset: identity,alpaca_en_demo; dataset_info.json has their files"));
  EXPECT_TRUE(remarks(made, "line 9: template: llama3; `echelon prepare` renders"));
  const auto with = [](const std::string& more) {
    return of("x.yaml", "model_name_or_path: org/m\nfinetuning_type: full\n" + more);
  };
  EXPECT_EQ(value(with("lora_rank: 4\n"), "lora.rank"), "");
  EXPECT_EQ(value(with("stage: pt\n"), "data.kind"), "tokens");
  EXPECT_EQ(value(with("disable_gradient_checkpointing: true\n"), "activation_checkpointing.policy"), "none");
  EXPECT_TRUE(remarks(with("val_size: 100\n"), "--validation-fraction of the command takes a share"));
  const Translation kto = with("stage: kto\npref_beta: 0.2\n");
  EXPECT_EQ(value(kto, "data.kind") + value(kto, "train.dpo.beta"), "chat");
  EXPECT_TRUE(remarks(kto, "line 3: stage: kto; the recipe does not have this objective"));
  const Translation dpo = with("stage: dpo\n");
  EXPECT_EQ(value(dpo, "data.kind") + ' ' + value(dpo, "train.dpo.beta"), "preference 0.1");
  EXPECT_EQ(value(dpo, "optim.lr"), "5.0e-5") << "that of TrainingArguments";
  EXPECT_TRUE(remarks(with("stage: dpo\npref_loss: simpo\n"), "pref_loss: simpo; the recipe does not have"));
}

TEST(Translate, LeavesOutWhatItsScheduleOrOptimizerDoesNotUse) {
  const Translation constant =
      of("n.yaml", kAutoModel + "optimizer: {_target_: torch.optim.SGD, lr: 1.0e-5}\n");
  EXPECT_EQ(value(constant, "schedule.kind"), "constant");
  EXPECT_EQ(value(constant, "schedule.warmup_start_factor"), "");
  EXPECT_EQ(value(constant, "optim.kind"), "sgd");
  EXPECT_EQ(value(constant, "optim.betas"), "");
}

TEST(Translate, WarmsUpAsThere) {
  const auto warmup = [](const std::string& name, const std::string& text) {
    const Translation made = of(name, text);
    return value(made, "schedule.warmup_steps") + value(made, "schedule.sequence") +
           (remarks(made, "warm") ? " remarked" : "");
  };
  const std::string arguments = R"({"output_dir": "o", "max_steps": 1000, )";
  EXPECT_EQ(warmup("h.json", arguments + R"("warmup_ratio": 0.1, "warmup_steps": 0})"),
            "[linear_warmup 100, linear_decay]")
      << "a dump of the arguments has both";
  EXPECT_EQ(warmup("h.json", arguments + R"("warmup_ratio": 0.1, "warmup_steps": 7})"),
            "[linear_warmup 7, linear_decay]");
  EXPECT_EQ(warmup("h.json", arguments + R"("warmup_ratio": 0.03, "lr_scheduler_type": "constant"})"),
            " remarked");
  const std::string axolotl = "base_model: m\n";
  EXPECT_EQ(warmup("a.yml", axolotl + "max_steps: 1000\n"), "30");
  EXPECT_EQ(warmup("a.yml", axolotl + "max_steps: 9000\n"), "100");
  EXPECT_EQ(warmup("a.yml", axolotl + "warmup_steps: 0\n"), "");
  EXPECT_EQ(warmup("a.yml", axolotl), " remarked");
  EXPECT_EQ(warmup("a.yml", axolotl + "lr_scheduler: constant\n"), "") << "it has none there";
  EXPECT_EQ(warmup("a.yml", axolotl + "lr_scheduler: polynomial\nwarmup_steps: 7\n"), "7");
  const std::string titan = "[job]\ndump_folder = \"o\"\n[training]\nsteps = 500\n";
  EXPECT_EQ(warmup("t.toml", titan), "[linear_warmup 199, constant 1, linear_decay]");
  const std::string scheduler = titan + "[lr_scheduler]\nwarmup_steps = ";
  EXPECT_EQ(warmup("t.toml", scheduler + "0\n"), "[linear_decay]");
  EXPECT_EQ(warmup("t.toml", scheduler + "1\n"), "[constant 1, linear_decay]");
  EXPECT_EQ(warmup("t.toml", scheduler + "3\ndecay_type = \"cosine\"\n"),
            "[linear_warmup 2, constant 1, cosine]");
}

TEST(Translate, GivesAutoModelsScheduleItsOwnDefaults) {
  const std::string model =
      "step_scheduler: {max_steps: 1000}\nmodel: {pretrained_model_name_or_path: org/m}\n"
      "optimizer: {lr: 1.0e-5}\n";
  const auto keys = [&model](const std::string& scheduler) {
    const Translation made = of("n.yaml", model + "lr_scheduler: {" + scheduler + "}\n");
    std::string all;
    for (const char* key : {"kind", "warmup_steps", "warmup_start_factor", "min_lr"})
      all += value(made, std::string("schedule.") + key) + ' ';
    return all;
  };
  EXPECT_EQ(keys("lr_decay_style: cosine, min_lr: 1.0e-6"), "warmup_cosine 100 0.1 1.0e-6 ");
  EXPECT_EQ(keys("min_lr: 1.0e-6"), "warmup_cosine 100 0.1 1.0e-6 ");
  EXPECT_EQ(keys("lr_warmup_steps: 10, init_lr: 2.0e-6"), "warmup_cosine 10 0.2 1e-07 ");
  EXPECT_EQ(keys("lr_decay_style: constant, lr_warmup_steps: 10"), "linear_warmup 10 0.1  ");
  EXPECT_EQ(value(of("n.yaml", model), "schedule.kind"), "constant");
}

TEST(Translate, SaysWhatBecomesOfIntervals) {
  const Translation made = of("h.json", R"({"output_dir": "o", "eval_strategy": "steps", "eval_steps": 50,
                                            "save_strategy": "epoch", "save_steps": 500})");
  EXPECT_TRUE(remarks(made, "eval_steps: 50; validation needs data"));
  EXPECT_TRUE(remarks(made, "save_strategy: epoch; set checkpoint.every_steps"));
  EXPECT_EQ(value(made, "checkpoint.every_steps"), "");
  const std::string axolotl = "base_model: m\nval_set_size: 0.1\n";
  EXPECT_EQ(value(of("a.yml", axolotl), "train.validate_every_epochs"), "1") << "its default";
  EXPECT_EQ(value(of("a.yml", axolotl + "eval_steps: 20\n"), "train.validate_every_steps"), "20");
  EXPECT_EQ(value(of("a.yml", axolotl + "eval_steps: 20\n"), "train.validate_every_epochs"), "");
  EXPECT_EQ(value(of("a.yml", axolotl + "evals_per_epoch: 0\n"), "train.validate_every_epochs"), "");
  const Translation four = of("a.yml", axolotl + "evals_per_epoch: 4\n");
  EXPECT_EQ(value(four, "train.validate_every_epochs"), "");
  EXPECT_TRUE(remarks(four, "evals_per_epoch: 4; set train.validate_every_steps"));
  const Translation both = of("n.yaml",
                              "step_scheduler: {max_steps: 1000, num_epochs: 1}\n"
                              "model: {pretrained_model_name_or_path: org/m}\n"
                              "dataset: {seq_len: 1024, dataset_name: d}\ndataloader: {batch_size: 8}\n");
  EXPECT_TRUE(remarks(both, "step_scheduler.num_epochs: 1; there the first of both ends a run"));
  EXPECT_EQ(value(both, "data.seq_len"), "1024");
  EXPECT_EQ(value(both, "train.micro_batch_size"), "8");
  EXPECT_TRUE(remarks(both, "there a sample is one conversation"));
  EXPECT_FALSE(remarks(of("a.yml", axolotl + "sample_packing: true\n"), "there a sample is one"));
  const auto packs = [](const char* size) {
    return !remarks(of("n.yaml", str(kAutoModel, "lr_scheduler: null\n",
                                     "packed_sequence: {packed_sequence_size: ", size, "}\n")),
                    "there a sample is one");
  };
  EXPECT_TRUE(packs("1024"));
  EXPECT_FALSE(packs("0"));
}

TEST(Translate, MakesTheAdaptersThatWouldBeMadeThere) {
  const Translation automodel = of("n.yaml", kAutoModel + "peft: {target_modules: all-linear}\n");
  EXPECT_EQ(value(automodel, "lora.rank") + ' ' + value(automodel, "lora.alpha"), "8 32") << "its defaults";
  EXPECT_EQ(value(automodel, "lora.modules"), "") << "all of them, which is the default here";
  const std::string trl = R"({"output_dir": "o", "model_name_or_path": "m", "lora_r": 4, "use_peft": )";
  EXPECT_EQ(value(of("h.json", trl + "false}"), "lora.rank"), "");
  const Translation adapters = of("h.json", trl + "true}");
  EXPECT_EQ(value(adapters, "lora.rank"), "4");
  EXPECT_EQ(value(adapters, "lora.alpha") + ' ' + value(adapters, "lora.dropout"), "32 0.05");
}

TEST(Translate, TakesATomlFileWhoseFirstValueIsAnEmptyTable) {
  EXPECT_EQ(read_settings("t.toml", "x = {}\n[training]\nsteps = 5\n").at(0).line, 3);
}

TEST(Translate, DecaysWhatIsDecayedThere) {
  const auto decay_of = [](const std::string& optimizer) {
    return value(of("n.yaml", kAutoModel + "optimizer: {_target_: " + optimizer + "}\n"),
                 "optim.weight_decay");
  };
  EXPECT_EQ(decay_of("torch.optim.AdamW"), "0.01");
  EXPECT_EQ(decay_of("torch.optim.SGD, momentum: 0.9"), "0.0");
  EXPECT_EQ(decay_of("torch.optim.SGD, weight_decay: 0.02"), "0.02");
  EXPECT_EQ(decay_of("torch.optim.Muon"), "0.1");
  const Translation adam = of("n.yaml", kAutoModel + "optimizer: {_target_: torch.optim.Adam}\n");
  EXPECT_EQ(value(adam, "optim.kind"), "adamw") << "without decay they are the same";
  EXPECT_EQ(value(of("h.json", R"({"output_dir": "o", "weight_decay": 0.1})"), "optim.no_decay"),
            "[\"*norm*\"]");
  EXPECT_EQ(value(of("h.json", R"({"output_dir": "o"})"), "optim.no_decay"), "");
  const std::string axolotl = "base_model: m\nweight_decay: 0.1\n";
  EXPECT_EQ(value(of("a.yml", axolotl), "optim.no_decay"), "[\"*norm*\"]");
  EXPECT_EQ(value(of("a.yml", axolotl + "adapter: lora\n"), "optim.no_decay"), "");
}

TEST(Translate, TakesTheObjectiveOfDpo) {
  const auto with = [](const std::string& more) {
    return of("h.json", R"({"output_dir": "o", "model_name_or_path": "org/m")" + more + "}");
  };
  for (const char* loss : {"", R"(, "loss_type": "sigmoid")", R"(, "loss_type": ["sigmoid"])"}) {
    const Translation made = with(R"(, "beta": 0.2)" + std::string(loss));
    EXPECT_EQ(value(made, "data.kind"), "preference");
    EXPECT_EQ(value(made, "train.dpo.beta"), "0.2");
    EXPECT_EQ(value(made, "optim.lr"), "1.0e-6") << "DPOConfig's default";
    EXPECT_TRUE(remarks(made, "echelon prepare FILES --format preference --tokenizer m"));
    EXPECT_TRUE(remarks(made, "there a sample is one pair"));
  }
  const Translation other = with(R"(, "beta": 0.2, "loss_type": "ipo")");
  EXPECT_EQ(value(other, "data.kind"), "chat");
  EXPECT_EQ(value(other, "train.dpo.beta"), "");
  EXPECT_TRUE(remarks(other, "loss_type: ipo; the recipe does not have this objective"));
  EXPECT_EQ(value(with(R"(, "loss_type": "sigmoid")"), "train.dpo.beta"), "0.1") << "its default";
  EXPECT_FALSE(remarks(with(R"(, "loss_type": "nll")"), "loss_type")) << "SFTTrainer's";
  EXPECT_EQ(value(with(R"(, "adam_beta1": 0.8)"), "data.kind"), "chat") << "Adam's";
}

TEST(Translate, ScalesMuonsRateAsThere) {
  const auto scale_of = [](const std::string& optimizer) {
    return value(of("n.yaml", kAutoModel + "optimizer: {_target_: " + optimizer + "}\n"), "optim.muon.scale");
  };
  EXPECT_EQ(scale_of("torch.optim.Muon"), "spectral") << "its default, which is not ours";
  EXPECT_EQ(scale_of("torch.optim.Muon, adjust_lr_fn: match_rms_adamw"), "match_adamw");
  EXPECT_EQ(scale_of("torch.optim.AdamW"), "");
  const Translation set =
      of("n.yaml", kAutoModel +
                       "optimizer: {_target_: torch.optim.Muon, momentum: 0.9, nesterov: false, "
                       "ns_steps: 7}\n");
  EXPECT_EQ(value(set, "optim.muon.momentum"), "0.9");
  EXPECT_EQ(value(set, "optim.muon.nesterov"), "false");
  EXPECT_EQ(value(set, "optim.muon.ns_steps"), "7");
  EXPECT_EQ(value(set, "optim.momentum"), "");
  const Translation axolotl = of("a.yml", "base_model: m\noptimizer: muon\n");
  EXPECT_EQ(value(axolotl, "optim.muon.scale"), "spectral");
  EXPECT_TRUE(remarks(axolotl, "line 2: optimizer: muon; there the factor of a wide matrix"));
}

TEST(Translate, TellsPrepareTheFormOfTheLines) {
  const auto with = [](const std::string& datasets) {
    return of("a.yml", "base_model: org/m\ndatasets:\n" + datasets);
  };
  const std::string command = "echelon prepare FILES --format chat";
  const std::string mapped =
      "  - path: a\n    type: chat_template\n    field_messages: talk\n"
      "    message_property_mappings: {role: from, content: value}\n";
  EXPECT_TRUE(remarks(with(mapped + "    field_system: sys\n"),
                      command + " --messages talk --role-key from --role human=user --role gpt=assistant "
                                "--content-key value --system sys --tokenizer m"));
  const Translation alpaca = with("  - path: a\n    type: alpaca\n");
  EXPECT_TRUE(
      remarks(alpaca, command + " --input instruction --context input --target output --system system "));
  EXPECT_TRUE(remarks(alpaca, "line 4: datasets.0.type: alpaca; prompts are written by the model's chat"));
  const Translation own = with("  - path: a\n    type: {field_instruction: q, field_output: a}\n");
  EXPECT_TRUE(remarks(own, command + " --input q --target a --tokenizer m"));
  const Translation both = with(mapped + "  - path: b\n    type: chat_template\n");
  EXPECT_TRUE(remarks(both, command + " --tokenizer m"));
  EXPECT_TRUE(remarks(both, "prepare each by a command with its options: datasets.0 --messages talk"));
  EXPECT_TRUE(remarks(both, "datasets.1 none"));
  EXPECT_TRUE(remarks(with("  - path: a\n    type: pygmalion\n"), "name the fields of its lines"));
}

TEST(Translate, RefusesWhatItDoesNotKnow) {
  const auto message = [](const std::string& name, const std::string& text) {
    return test::refusal(Code::kUsage, [&] { (void)of(name, text); });
  };
  EXPECT_MENTIONS(message("x.yaml", "name: x\n"), "no configuration that is known here");
  EXPECT_MENTIONS(message("x.yaml", ""), "x.yaml is empty");
  EXPECT_MENTIONS(message("x.yaml", "- a\n"), "expected keys with values");
  EXPECT_MENTIONS(message("x.yaml", "a: [1\nb: 2\n"), "x.yaml:");
  EXPECT_MENTIONS(message("x.toml", "[training]\nsteps\n"), "x.toml:2: expected key = value");
}

}  // namespace
}  // namespace echelon::recipe
