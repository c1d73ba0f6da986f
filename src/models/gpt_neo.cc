// GPT-Neo (Black et al., 2021): every other layer sees a window alone, and scores are not scaled.
#include <fmt/format.h>

#include <algorithm>

#include "hone/registry.h"
#include "models/classic.h"

namespace hone::models {
namespace {

using config::Node;

struct GptNeoConfig : ClassicKeys {
  using Base = ClassicKeys;
  std::string model_type = "gpt_neo", activation_function = "gelu_new";
  std::int64_t vocab_size = 50257, max_position_embeddings = 2048, hidden_size = 2048, num_layers = 24, num_heads = 16,
               window_size = 256;
  std::optional<std::int64_t> intermediate_size, pad_token_id;
  config::Open attention_types, bos_token_id{Node::scalar("50256")}, eos_token_id{Node::scalar("50256")};
  std::optional<std::vector<std::string>> attention_layers;
  double resid_dropout = 0, embed_dropout = 0, attention_dropout = 0, classifier_dropout = 0.1,
         layer_norm_epsilon = 1e-5, initializer_range = 0.02;
  bool tie_word_embeddings = true;

  static constexpr auto fields() {
    using C = GptNeoConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    return std::tuple_cat(
        ClassicKeys::fields(),
        std::tuple{
            field("model_type", &C::model_type, "gpt_neo."),
            field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
            field("max_position_embeddings", &C::max_position_embeddings,
                  "Positions that are learned: no document may be longer.", size),
            field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
            field("num_layers", &C::num_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
            field("num_heads", &C::num_heads, "Attention heads.", {.low = 1, .high = 65536}),
            field("intermediate_size", &C::intermediate_size, "Width inside the MLP; default: 4 hidden_size.", size),
            field("attention_types", &C::attention_types,
                  "Which layers see all before them, and which a window: [[[global, local], 12]] is both in turn, 12 "
                  "times, which is the default."),
            field("attention_layers", &C::attention_layers, "The same for each layer; follows from attention_types."),
            field("window_size", &C::window_size, "Tokens that a token of a local layer sees, itself included.", size),
            field("activation_function", &C::activation_function, "Activation of the MLP, by Hugging Face's name."),
            field("resid_dropout", &C::resid_dropout, "Share that training drops of what attention and MLP add.",
                  share),
            field("embed_dropout", &C::embed_dropout, "Share that training drops of the embeddings.", share),
            field("attention_dropout", &C::attention_dropout, "Share that training drops of the attention's weights.",
                  share),
            field("classifier_dropout", &C::classifier_dropout,
                  "Share that training drops of what a head for labels of tokens reads.", share),
            field("layer_norm_epsilon", &C::layer_norm_epsilon, "Added to the variance in LayerNorm.", at_least(0)),
            field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.", at_least(0)),
            field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
            field("bos_token_id", &C::bos_token_id, "First token of a text; kept for others."),
            field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others."),
            field("pad_token_id", &C::pad_token_id, "Padding; kept for others.")});
  }
  void validate(Problems& problems) const;
};

// [[["global", "local"], 12], ...], which is also what the default looks like.
std::vector<std::string> layers_of(const Node& types, Problems& problems) {
  std::vector<std::string> layers;
  const auto wrong = [&] {
    problems.add("attention_types", "expected lists of layers and how often they come, as in [[[global, local], 12]]",
                 "", types.mark());
    return std::vector<std::string>();
  };
  using Kind = Node::Kind;
  if (types.kind() != Kind::list) return wrong();
  for (const Node& group : types.items()) {
    const bool is_pair = group.kind() == Kind::list && group.items().size() == 2;
    if (!is_pair || group.items()[0].kind() != Kind::list) return wrong();
    std::int64_t times = 0;
    const std::size_t before = problems.size();
    config::Values<std::int64_t>::read(group.items()[1], times,
                                       {problems, "attention_types", {.low = 1, .high = 10000}});
    if (problems.size() > before) return {};
    for (std::int64_t i = 0; i < times; ++i)
      for (const Node& one : group.items()[0].items()) {
        if (one.kind() != Node::Kind::scalar) return wrong();
        layers.push_back(one.text());
      }
  }
  return layers;
}

void read_layers(const GptNeoConfig& c, ClassicShape& s, Problems& problems) {
  std::vector<std::string> layers;
  if (c.attention_types.node.is_null())
    for (std::int64_t i = 0; i < 24; ++i) layers.push_back(i % 2 == 0 ? "global" : "local");
  else
    layers = layers_of(c.attention_types.node, problems);
  if (layers.empty()) return;
  problems.require(std::ssize(layers) == c.num_layers, "attention_types",
                   fmt::format("got {} layers, expected num_layers ({})", layers.size(), c.num_layers));
  if (c.attention_layers)
    problems.require(*c.attention_layers == layers, "attention_layers", "differs from attention_types");
  const auto is_other = [](const std::string& one) { return one != "global" && one != "local"; };
  if (const auto other = std::find_if(layers.begin(), layers.end(), is_other); other != layers.end())
    return problems.add("attention_types", fmt::format("got {}, expected global or local", *other));
  for (std::size_t i = 0; i < std::min(layers.size(), s.windows.size()); ++i)
    s.windows[i] = layers[i] == "local" ? c.window_size : 0;
}

ClassicShape resolve(const GptNeoConfig& c, Problems& problems) {
  ClassicShape s;
  s.model_type = "gpt_neo", s.architecture = "GPTNeoForCausalLM";
  read_sizes({.vocab = c.vocab_size,
              .hidden = c.hidden_size,
              .inner = c.intermediate_size.value_or(4 * c.hidden_size),
              .layers = c.num_layers,
              .heads = c.num_heads,
              .max_positions = c.max_position_embeddings,
              .heads_key = "num_heads"},
             s, problems);
  read_activation(c.activation_function, "activation_function", s, problems);
  read_layers(c, s, problems);
  leave_unrotated(s);
  s.attention_scale = 1;
  s.tied = c.tie_word_embeddings, s.std = c.initializer_range, s.eps = c.layer_norm_epsilon;
  s.output_bias = s.mlp_bias = true;
  s.residual_dropout = c.resid_dropout, s.attention_dropout = c.attention_dropout;
  s.embedding_dropout = c.embed_dropout, s.classifier_dropout = c.classifier_dropout;
  s.body = "transformer", s.table = "wte", s.stack = "h", s.last_norm = "ln_f", s.output = "out_proj";
  s.token_classifier = "classifier";
  read_head(c, s, problems);
  return s;
}

void GptNeoConfig::validate(Problems& problems) const { resolve(*this, problems); }

constexpr SerialNames kNeoNames{"ln_1", "attn.attention", "ln_2", "mlp", "c_fc", "c_proj"};

class GptNeo final : public LearnedPlaces<SerialBlock<kNeoNames>> {
 public:
  GptNeo(const GptNeoConfig& config, const HeadRequest& head)
      : LearnedPlaces(classic_shape_of(config, head), "transformer.wpe"), c(config) {}

  config::Node hf_config() const override {
    Node node = written(c, s, dtype(), {"intermediate_size"});
    std::vector<Node> layers;
    for (const std::int64_t window : s.windows)
      layers.push_back(Node::scalar(window > 0 ? "local" : "global", /*quoted=*/true));
    node.at_or_add("attention_layers") = Node::list(std::move(layers));
    if (c.attention_types.node.is_null())
      node.at_or_add("attention_types") = Node::list({Node::list(
          {Node::list({Node::scalar("global", true), Node::scalar("local", true)}), Node::scalar("12")})});
    return node;
  }
  // Masks that old versions saved.
  bool is_no_weight(const std::string& tensor) const override {
    return tensor.ends_with(".attn.attention.bias") || tensor.ends_with(".attn.attention.masked_bias");
  }

 private:
  GptNeoConfig c;
};

}  // namespace

void register_gpt_neo(Registries& hone) {
  hone.models.add<GptNeo, GptNeoConfig>("gpt_neo", "GPT-Neo: learned positions, and windows in every other layer.");
}

}  // namespace hone::models
