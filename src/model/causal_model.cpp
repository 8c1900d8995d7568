#include "model/causal_model.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shapes/llama_family.h"

namespace echelon {

CausalModel::CausalModel(const ModelOptions& options, const ModelTypes& types, std::int64_t kv_heads,
                         std::optional<RotaryTable> rotary, std::optional<RotaryTable> window_rotary)
    : Model(options, types),
      attention_{.heads = options.heads,
                 .kv_heads = kv_heads,
                 .head_dim = head_size(options),
                 .causal = true,
                 .scale = static_cast<float>(attention_scale(options))},
      rotary_(std::move(rotary)),
      window_rotary_(std::move(window_rotary)) {}

Layer& CausalModel::add_embedding(const std::string& name, const ShapeTable& shapes) {
  embedding_layer_ = &add_layer(name, Layer::Role::kEmbedding);
  const std::string weight = name + ".weight";
  if (options_.tie_embeddings) {
    shared_.push_back({std::make_shared<Parameter>(weight, shapes.at(weight), normal(options_.init_std)),
                       {embedding_layer_}});
    embedding_ = shared_.back().parameter.get();
  } else {
    embedding_ = &embedding_layer_->add(weight, shapes.at(weight), normal(options_.init_std));
  }
  return *embedding_layer_;
}

void CausalModel::add_head(const std::string& norm, const ShapeTable& shapes, const std::string& head) {
  head_layer_ = &add_layer(head, Layer::Role::kHead);
  final_norm_.emplace(head_layer_->add_layer(norm), shapes, options_);
  if (options_.tie_embeddings) {
    head_ = embedding_;
    shared_.front().users.push_back(head_layer_);
  } else {
    head_ = add_linear(*head_layer_, head, shapes, normal(options_.init_std)).weight;
  }
}

void CausalModel::add_adapters(const LoraOptions& lora) {
  const std::vector<AdaptedMatrix> adapted = adapted_matrices(options_, lora);
  for (Block& block : blocks_) {
    for (Linear* linear : {&block.attention.in, &block.attention.out, &block.mlp.inner, &block.mlp.outer}) {
      linear->adapter = Adapter::of(*linear->weight, adapted, lora);
      if (!linear->adapter) continue;
      shared_.push_back({linear->adapter->a(), {}});
      shared_.push_back({linear->adapter->b(), {}});
    }
  }
}

at::Tensor CausalModel::dropped(const at::Tensor& x, const Layer& of, const Pass& pass) const {
  return ops::dropout(x, options_.dropout, pass.batch, of.name());
}

at::Tensor CausalModel::embedded(const at::Tensor& ids, const Pass& /*pass*/) const {
  return ops::embedding(ids, *embedding_);
}

Attend CausalModel::attend_in(std::size_t block, const Pass& pass) const {
  return [attention = pass.attention, block](const at::Tensor& qkv, const LayerInputs&) {
    return attention(static_cast<std::int64_t>(block), qkv);
  };
}

at::Tensor CausalModel::block_forward(std::size_t number, const at::Tensor& x, const Pass& pass) const {
  const Block& block = blocks_[number];
  const double factor = options_.residual_multiplier;
  const Attention& attention = block.attention;
  const Mlp& mlp = block.mlp;
  Residual stream(x);
  Residual before(x);
  // Results have no names, so that their memory is free for what follows.
  stream.add(dropped(attention.forward(*block.layer, stream, attend_in(number, pass), {}, pass.batch),
                     *attention.layer, pass),
             factor);
  stream.add(dropped(mlp.forward(*block.layer, parallel() ? before : stream, activation(number), pass.batch),
                     *mlp.layer, pass),
             factor);
  return stream.value();
}

at::Tensor CausalModel::body(const at::Tensor& ids, const Pass& pass) const {
  at::Tensor x = embedding_layer_->run(ids, [this, pass](const at::Tensor& flat) {
    return dropped(embedded(flat, pass), *embedding_layer_, pass);
  });
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    x = blocks_[i].layer->run(x,
                              [this, i, pass](const at::Tensor& in) { return block_forward(i, in, pass); });
  }
  return x;
}

ops::AttentionOptions CausalModel::attention_of(std::int64_t block) const {
  ops::AttentionOptions attention = attention_;
  if (has_window(options_, block)) attention.window = options_.window;
  return attention;
}

BlockRotary CausalModel::rotary_of(std::int64_t positions) const {
  const at::Tensor table = rotary_ ? rotary_->rows(positions) : at::Tensor();
  const at::Tensor of_windows = window_rotary_ ? window_rotary_->rows(positions) : table;
  return [this, table, of_windows](std::int64_t block) {
    if (!has_rope(options_, block)) return at::Tensor();
    return has_window(options_, block) ? of_windows : table;
  };
}

at::Tensor CausalModel::head_input(const at::Tensor& x) const {
  return times(final_norm_->forward(x), 1 / options_.logits_scaling);
}

at::Tensor CausalModel::body(const Batch& batch) const {
  const BlockAttention attention = [this, sequences = batch.sequences,
                                    rotary = rotary_of(batch.sequences->longest())](std::int64_t block,
                                                                                    const at::Tensor& qkv) {
    return ops::self_attention(qkv, sequences, attention_of(block), {.rotary = rotary(block), .bias = {}});
  };
  return body(batch.ids, {attention, {}, batch});
}

namespace {

/// The sum of the rows of each sequence, fp64 [sequences]; in the same order on every device.
at::Tensor sums_of(const at::Tensor& rows, const Sequences& sequences) {
  const at::Tensor rectangle = rows.index_select(0, sequences->tokens_of_rectangle(rows.device()))
                                   .view({sequences->count(), sequences->longest()});
  return rectangle.masked_fill(sequences->padding_of_rectangle(rows.device()), 0).sum(1, false, at::kDouble);
}

/// DPO's loss over pairs, and the factor by which the log-probabilities of each sequence enter it.
struct PairLoss {
  at::Tensor sum;      // fp64 scalar
  at::Tensor factors;  // fp64 [sequences]: minus its derivatives
};

PairLoss pair_loss(const at::Tensor& logps, const AnswerPairs& pairs) {
  const at::Tensor by_pair = logps.view({-1, 2});
  const at::Tensor rewards = (by_pair - pairs.reference) * pairs.beta;
  const at::Tensor margins = rewards.select(1, 0) - rewards.select(1, 1);
  const at::Tensor pull = at::sigmoid(-margins) * pairs.counted * pairs.beta;
  const at::Tensor right = margins.gt(0).to(at::kDouble).unsqueeze(1);
  pairs.sums.copy_((at::cat({right, rewards, by_pair}, 1) * pairs.counted.unsqueeze(1)).sum(0));
  constexpr double kLinearFrom = 40;  // beyond it fp64 does not tell softplus(x) from x
  const at::Tensor losses = at::softplus(-margins, 1, kLinearFrom) * pairs.counted;
  return {losses.sum(), at::stack({pull, -pull}, 1).flatten()};
}

}  // namespace

at::Tensor CausalModel::loss(const Batch& batch, double gradient_scale) {
  const auto of_head = [=, this, targets = batch.targets, pairs = batch.pairs,
                        sequences = batch.sequences](const at::Tensor& x) {
    const at::Tensor input = head_input(x);
    if (!pairs) return ops::linear_cross_entropy(input, *head_, targets, gradient_scale, output_);
    // The gradient of a pair is that of its answers' log-probabilities, times factors that follow from them.
    // So the head runs twice, and the rest of the model once, with one mask of dropout.
    PairLoss loss;
    at::Tensor weights;
    {
      const at::NoGradGuard no_grad;
      loss = pair_loss(-sums_of(ops::token_losses(input, *head_, targets, output_), sequences), *pairs);
      weights = loss.factors.index_select(0, sequences->sequence_numbers(x.device())).to(at::kFloat);
    }
    const at::Tensor value = loss.sum.to(at::kFloat);
    if (!at::GradMode::is_enabled()) return value;
    const at::Tensor weighted =
        ops::linear_cross_entropy(input, *head_, targets, gradient_scale, output_, weights);
    return weighted + (value - weighted.detach());
  };
  return head_layer_->run(body(batch), of_head);
}

Score CausalModel::evaluate(const Batch& batch) {
  Score score{loss(batch, 0.0), {}};
  if (batch.pairs) score.correct = batch.pairs->sums.select(0, AnswerPairs::kRight);
  return score;
}

at::Tensor CausalModel::token_losses(const Batch& batch, const at::Tensor& tokens,
                                     const at::Tensor& targets) {
  return head_layer_->run(body(batch), [=, this](const at::Tensor& x) {
    return ops::token_losses(head_input(x.index_select(0, tokens)), *head_, targets, output_);
  });
}

double CausalModel::looked_up() const {
  // A tied embedding is also the matrix of the head; an untied one is only looked up.
  return options_.tie_embeddings ? 0.0 : static_cast<double>(embedding_->numel());
}

SampleFlops CausalModel::flops_per_sample(const SampleShape& shape) const {
  const double matrices = static_cast<double>(numel()) - looked_up();
  // Two products of 2 FLOPs per pair of positions and element, thrice for forward and backward. A token of a
  // window sees that many positions at most; without one, all are counted, as the formula of PaLM does.
  double seen = 0;
  for (std::int64_t block = 0; block < options_.layers; ++block) {
    const std::int64_t window = attention_of(block).window;
    seen += static_cast<double>(window == 0 ? shape.tokens : std::min(window, shape.tokens));
  }
  const double attention = 12.0 * static_cast<double>(options_.heads * head_size(options_)) * seen;
  const auto tokens = static_cast<double>(shape.tokens);
  return {tokens * 6.0 * matrices, tokens * attention};
}

at::Tensor times(const at::Tensor& x, double factor) {
  return factor == 1 ? x : x * factor;
}

}  // namespace echelon
