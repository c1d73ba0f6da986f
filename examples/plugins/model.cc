// A model: a decoder whose attention and MLP read the same norm, as in PaLM, with learned positions.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens of all documents in a row, H heads, K head size.
#include <ATen/ATen.h>

#include <cmath>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/registry.h"

namespace {

using namespace hone;

// The keys of its config.json: what a recipe may say below `model`, and what a checkpoint says.
struct Config {
  std::string model_type = "parallel_lm";
  std::int64_t vocab_size = 256, hidden_size = 64, num_hidden_layers = 2, num_attention_heads = 4;
  std::int64_t max_position_embeddings = 256;
  std::optional<std::int64_t> bos_token_id, eos_token_id, pad_token_id;
  static constexpr auto fields() {
    using C = Config;
    return std::tuple{field("model_type", &C::model_type, "parallel_lm."),
                      field("vocab_size", &C::vocab_size, "Rows of the embedding table.", at_least(1)),
                      field("hidden_size", &C::hidden_size, "Width of the residual stream.", at_least(1)),
                      field("num_hidden_layers", &C::num_hidden_layers, "Blocks.", at_least(1)),
                      field("num_attention_heads", &C::num_attention_heads, "Attention heads.", at_least(1)),
                      field("max_position_embeddings", &C::max_position_embeddings, "Learned positions.", at_least(1)),
                      field("bos_token_id", &C::bos_token_id, "First token of a text."),
                      field("eos_token_id", &C::eos_token_id, "Last token of a text."),
                      field("pad_token_id", &C::pad_token_id, "Padding.")};
  }
  void validate(Problems& problems) const {
    problems.require(hidden_size % num_attention_heads == 0, "hidden_size",
                     "expected a multiple of num_attention_heads");
  }
};

// Children and weights are declared with the names that they have in model.safetensors.
class Layer final : public Block {
 public:
  Layer(const Config& config, std::int64_t) : c(config) {}

  Tensor forward(const Tensor& x_1ND, Pass& pass) const override {
    const Tensor normed_1ND = norm(x_1ND);
    const auto qkv = nn::linears(normed_1ND, {&q, &k, &v});
    const auto heads = [&](const Tensor& x) { return x.view({-1, c.num_attention_heads, head_size()}); };
    const ops::AttentionOptions options{.scale = 1 / std::sqrt(double(head_size())), .mask = ops::Mask::causal()};
    const Tensor mixed_NHK = nn::attend(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), pass, options);
    return x_1ND + o(mixed_NHK.flatten(1).unsqueeze(0)) + down(at::gelu(up(normed_1ND)));
  }

 private:
  std::int64_t head_size() const { return c.hidden_size / c.num_attention_heads; }
  nn::Linear& linear(const char* name, std::int64_t in, std::int64_t out) {
    return child<nn::Linear>(name, in, out, nn::Linear::Options{});
  }
  const Config& c;
  const std::int64_t D = c.hidden_size;
  nn::LayerNorm& norm = child<nn::LayerNorm>("norm", D, 1e-5);
  nn::Linear &q = linear("q", D, D), &k = linear("k", D, D), &v = linear("v", D, D), &o = linear("o", D, D);
  nn::Linear &up = linear("up", D, 4 * D), &down = linear("down", 4 * D, D);
};

class ParallelLm final : public CausalLm {
 public:
  explicit ParallelLm(const Config& config) : c(config) {}

  Tensor embed(const Batch& batch, Pass& pass) const override {
    return tokens(batch.ids_BT) + places(nn::positions(pass));
  }
  std::vector<const Block*> blocks() const override { return {layers.blocks().begin(), layers.blocks().end()}; }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return norm(x_1ND); }
  const nn::Head& head() const override { return lm_head; }

  std::int64_t vocab_size() const override { return c.vocab_size; }
  std::int64_t max_positions() const override { return c.max_position_embeddings; }
  bool positions_are_learned() const override { return true; }
  CacheSpec cache_spec() const override {  // what generation keeps of each layer
    const CacheSpec::Layer layer{.kv_heads = c.num_attention_heads, .head_size = c.hidden_size / c.num_attention_heads};
    return {std::vector<CacheSpec::Layer>(static_cast<std::size_t>(c.num_hidden_layers), layer)};
  }
  config::Node hf_config() const override { return config::write(c); }

 private:
  Config c;
  nn::Embedding& tokens = child<nn::Embedding>("tokens", c.vocab_size, c.hidden_size, 0.02);
  nn::Embedding& places = child<nn::Embedding>("places", c.max_position_embeddings, c.hidden_size, 0.02);
  nn::Stack<Layer>& layers = child<nn::Stack<Layer>>("layers", c.num_hidden_layers, c);
  nn::LayerNorm& norm = child<nn::LayerNorm>("norm", c.hidden_size, 1e-5);
  nn::Head& lm_head = child<nn::Head>("lm_head", c.hidden_size, c.vocab_size, 0.02, &tokens.weight);
};

}  // namespace

extern "C" HONE_API void hone_register(hone::Registries& hone) {
  hone.models.add<ParallelLm, Config>("parallel_lm", "A decoder with attention and MLP side by side.");
}
