// Models: embed -> blocks -> finish, with the layer loop written once in the base class.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/batch.h"
#include "hone/config.h"
#include "hone/module.h"
#include "hone/precision.h"

namespace hone {

namespace nn {
class Head;     // src/nn/head.h
class KvCache;  // src/nn/kv_cache.h
class Plan;     // src/nn/plan.h: who attends to whom, rotary tables; made once per forward
class Residual;  // hone/layers.h
}  // namespace nn

// Of a pass's random numbers. Who has taken it does work that no other pass does.
class PassSeed {
 public:
  PassSeed& operator=(std::uint64_t seed) {
    seed_ = seed;
    return *this;
  }
  operator std::uint64_t() const {
    taken_ = true;
    return seed_;
  }
  bool was_taken() const { return taken_; }

 private:
  std::uint64_t seed_ = 0;
  mutable bool taken_ = false;
};

// One forward pass: what every layer needs besides its input. Made for one Batch, used once, by one thread.
class HONE_API Pass {
 public:
  explicit Pass(const Batch& batch);
  ~Pass();
  const Batch& batch;
  bool training = false;
  PassSeed seed;                   // of this pass's random numbers (dropout): the same seed, the same numbers
  double embedding_noise = 0;      // in training, of embedded tokens: alpha of nn::embedding_noise()
  bool checkpoint_blocks = false;  // gradient checkpointing: recompute each block in backward (bit-equal); the pass
                                   // must then outlive the backward pass
  Float8 float8 = Float8::off;     // of products with weights that take it; evaluations and texts are made without
  bool share_prefixes = false;     // Doc::shared is computed once; Model::forward sets it where the model can
  nn::KvCache* cache = nullptr;    // generation: what earlier tokens left, keys and values or memories
  std::string adapter = kDefaultAdapter;     // of those on the weights; "": the model below, a reference at no cost
  std::function<bool(const std::string&)> wanted;  // which intermediates are kept; empty: none
  std::map<std::string, Tensor> sown;        // intermediates that layers handed out by sow(), without their graph
  std::vector<LossTerm> aux;                 // auxiliary losses that layers add, e.g. a router's; part of the graph
  std::map<std::string, Tensor> totals;      // what layers added up by add_up() for finish(); part of the graph
  std::map<std::string, Metric> metrics;     // what is logged of this pass, by measure()
  std::vector<MeasuredMean> means;           // the same of what a device makes
  std::map<const Weight*, Tensor> observed;  // what layers saw of this batch for buffers, by observe()
  // What the sums of an objective's terms are divided by afterwards, by LossTerm::per, on the model's device; empty:
  // nobody knows it yet.
  std::map<std::string, Tensor> divisors;
  std::vector<std::shared_ptr<const void>> kept;  // what has to live as long as this pass, such as one of another model
  std::int64_t layer = 0;                    // index of the running block
  const Adapter* adapter_of(const Weight& weight) const { return weight.adapter(adapter); }  // null: none
  void sow(const std::string& name, const Tensor& value);  // of the running block: "layers.<i>.<name>"
  void add_up(const std::string& name, const Tensor& value);
  void measure(const std::string& name, double sum, double weight);  // sum / weight over all calls is logged
  void measure(const std::string& name, const Tensor& sum, const Tensor& weight);  // of scalars; nobody waits for them
  // What this batch has for a buffer, without its graph; several calls add up. In training, a buffer is updated with
  // the sum over all batches of the update.
  void observe(const Weight& buffer, const Tensor& seen);
  nn::Plan& plan();  // built on first use from batch and cache, unless it was given
  void set_plan(std::unique_ptr<nn::Plan> plan);

 private:
  std::unique_ptr<nn::Plan> plan_;
};

struct Output {
  Tensor hidden_BTD;
  std::map<std::string, Tensor> named;
};

// One transformer (or other) block: [B,T,D] -> [B,T,D].
class HONE_API Block : public Module {
 public:
  virtual Tensor forward(const Tensor& x_BTD, Pass& pass) const = 0;
  // x = forward(x), where nobody looks at what is between blocks: see nn::ResidualBlock.
  virtual void add_to(nn::Residual& x, Pass& pass) const;
};

class CausalLm;
class Seq2SeqLm;
class Classifier;
class MaskedLm;

// What a model is to have that its configuration does not say.
struct HeadRequest {
  std::vector<std::string> labels = {};  // a classification head for these; empty: the head that config.json says
  bool masked_lm = false;                // a head that says which tokens were masked, where it has no such one
  std::optional<ProblemType> problem_type = {};  // of the labels; nothing: what the configuration says
  bool of_tokens = false;                        // the labels are of each token, not of a document
  bool answers_questions = false;  // these are kPlacesOfAnswers: where in a text the answer to a question stands
};

// Where the weights of a model are that no process holds whole: they come before a block is computed, forward and
// backward, and go behind it. Called in the same order on all ranks.
class HONE_API Residency {
 public:
  virtual ~Residency() = default;
  // A forward pass begins: what is in no block comes. `learns`: a backward pass will follow.
  virtual void begin(bool learns) = 0;
  virtual void enter(std::size_t block) = 0;
  virtual void leave(std::size_t block) = 0;
  virtual void enter_backward(std::size_t block) = 0;
  virtual void leave_backward(std::size_t block) = 0;
  // All that a pass does with other ranks, where this one has nothing to compute.
  virtual void idle_pass(bool learns) = 0;
};

// One layer's attention, as far as its work depends on it.
struct AttentionLayer {
  std::int64_t heads = 0, head_size = 0;  // of queries
  std::int64_t window = 0;                // as ops::Mask's
  bool causal = true;
};

// One layer's memory instead of attention: per head a matrix that tokens are added to and read from (nn::mlstm,
// nn::gated_delta, nn::ssd). Its size does not depend on how many tokens there are.
struct MemoryLayer {
  std::int64_t heads = 0, key_size = 0, value_size = 0;  // heads 0: there is none
  std::int64_t products = 2;             // that a token makes with the matrix
  std::int64_t convolved = 0, taps = 0;  // channels that a convolution over so many tokens reads before it
};

// Plug-in (src/models).
class HONE_API Model : public SavedModule {
 public:
  static constexpr std::string_view kInterface = "model";
  Model* as_model() final { return this; }
  virtual Tensor embed(const Batch& batch, Pass& pass) const = 0;
  virtual std::vector<const Block*> blocks() const = 0;
  virtual Tensor finish(const Tensor& x_BTD, Pass& pass) const = 0;
  Output forward(const Batch& batch, Pass& pass) const;  // the one layer loop
  // null: all weights are there. It must outlive its use. Passes that take no trained adapter (Pass::adapter) do
  // without.
  void set_residency(Residency* residency) { residency_ = residency; }
  Residency* residency() const { return residency_; }
  // The same for weights that are held in fewer bits: of every pass, and the model's own. null: there are none.
  void set_unpacking(std::unique_ptr<Residency> unpacking) { unpacking_ = std::move(unpacking); }
  Residency* unpacking() const { return unpacking_.get(); }
  // What is trained with this model and has a folder of its own, as PPO's value model. Of each name there is one.
  void set_beside(const std::string& name, std::shared_ptr<SavedModule> module);
  const std::vector<std::pair<std::string, std::shared_ptr<SavedModule>>>& beside() const { return beside_; }
  // Then those of what is beside this model: their names begin with its name and a dot.
  void each_with_adapters(const std::function<void(const std::string&, Weight&)>& visit) override;
  void set_device(at::Device device) override;  // and of what is beside it

  virtual std::int64_t vocab_size() const = 0;     // token ids are below it
  virtual std::int64_t max_positions() const = 0;  // tokens of a document that it was made for: max_position_embeddings
  virtual bool positions_are_learned() const { return false; }  // no document may be longer than max_positions()
  // Whether what documents begin with alike may be computed once (Doc::shared): a token sees others through nn::attend
  // alone, and only earlier ones, and is the same whatever the length of its document.
  virtual bool shares_prefixes() const { return false; }
  // Whether several ranks may compute a batch together (parallel.context): a token sees others through layers of
  // src/nn alone that exchange what they see, and else is computed by itself.
  virtual bool takes_context() const { return false; }
  // Whether ranks that compute a batch together may each have a slice of its large weights (parallel.tensor): every
  // weight that has a TensorCut is used by layers of src/nn that know of slices. Where this is true, so is
  // takes_context().
  virtual bool takes_tensor() const { return false; }
  // Error(config): documents of this length would be beyond what was learned. `option` decides their length.
  void check_length(std::int64_t length, const std::string& option) const;
  // For measures of work (src/nn/flops.h); empty: it has no attention, or does not tell.
  virtual std::vector<AttentionLayer> attention() const { return {}; }
  virtual std::vector<MemoryLayer> memories() const { return {}; }  // likewise
  // HF's model_type and config.json (transformers 5 form) of this model.
  config::Node hf_config() const override = 0;

  // What it can besides giving hidden states; null: it cannot.
  virtual const CausalLm* causal_lm() const { return nullptr; }
  virtual const Seq2SeqLm* seq2seq_lm() const { return nullptr; }
  virtual const Classifier* classifier() const { return nullptr; }
  virtual const MaskedLm* masked_lm() const { return nullptr; }
  virtual const PictureInput* pictures() const { return nullptr; }  // that it reads

  // Hugging Face's base_model_prefix with a dot, "bert.": with it begin the names of the body's weights in folders of
  // models with a head. Such a folder fills a model without a head and the other way round. "": it is not so.
  virtual std::string base_prefix() const { return ""; }
  // Tensors in folders of such models that are no weights, such as masks that old versions saved: they are passed over.
  virtual bool is_no_weight(const std::string& /*tensor*/) const { return false; }
  // Weights that a folder of such models may lack, as they belong to a head: training then begins with fresh ones.
  virtual bool may_be_fresh(const std::string& /*weight*/) const { return false; }

 private:
  Residency* residency_ = nullptr;
  std::unique_ptr<Residency> unpacking_;
  std::vector<std::pair<std::string, std::shared_ptr<SavedModule>>> beside_;
};

// Sizes that a cache needs, per layer: of keys and values (window 0 = all tokens are kept), or of a memory.
struct CacheSpec {
  struct Layer {
    std::int64_t kv_heads = 0, head_size = 0, window = 0;
    MemoryLayer memory = {};
    bool values_are_keys = false;  // and kept once
  };
  std::vector<Layer> layers;
};

// A model with a language-model head.
class HONE_API CausalLm : public Model {
 public:
  const CausalLm* causal_lm() const override { return this; }  // null: it was given another head
  virtual const nn::Head& head() const = 0;
  virtual CacheSpec cache_spec() const = 0;
  Tensor logits(const Batch& batch) const;  // fp32 [B,T,V], without a graph
};

// One that reads a source whole (Role::source) and answers with a target of the same group. Hidden states of sources
// are 0: its output is of targets.
class HONE_API Seq2SeqLm : public CausalLm {
 public:
  const Seq2SeqLm* seq2seq_lm() const override { return this; }
  virtual std::int32_t decoder_start() const = 0;  // the token that targets are begun with
  // Whether layers make products of sources' tokens with it, and not of targets'. For measures of work.
  virtual bool is_of_sources(const std::string& weight) const = 0;
};

// A model that says which label a document has, or each of its tokens.
class HONE_API Classifier {
 public:
  virtual ~Classifier() = default;
  virtual const std::vector<std::string>& labels() const = 0;
  virtual std::optional<ProblemType> problem_type() const = 0;  // nothing: its configuration does not say
  virtual bool of_tokens() const { return false; }
  // Of tokens, whose two labels are kPlacesOfAnswers.
  virtual bool answers_questions() const { return false; }
  // [documents, labels] in the order of the batch's docs, of tokens [B,T,labels]; the pass is the one that gave the
  // output.
  virtual Tensor logits(const Output& output, Pass& pass) const = 0;
  virtual std::string weights_prefix() const = 0;  // of the weights that depend on the labels: "classifier."
};

// What the labels of a head are that answers questions: whether the answer begins, and ends, at a token.
inline constexpr std::array<const char*, 2> kPlacesOfAnswers = {"start", "end"};

// Of the head's product with the table of words, and of its bias: "cls.predictions.decoder", "cls.predictions.bias".
struct MaskHeadNames {
  std::string decoder, bias;
};

// A model that says which tokens stood where others are now, of a text that it sees whole.
class HONE_API MaskedLm {
 public:
  virtual ~MaskedLm() = default;
  virtual const nn::Head& mask_head() const = 0;
  // What the head reads of hidden states [..., D]: of any tokens, each on its own.
  virtual Tensor for_mask_head(const Tensor& hidden, const Pass& pass) const = 0;
  virtual MaskHeadNames mask_head_names() const = 0;
};

// Error(config) when the model has no such head.
HONE_API const MaskedLm& require_masked_lm(const Model& model, const std::string& what);

// Error(config) when the model has no classification head of so many labels or more, for documents.
HONE_API const Classifier& require_classifier(const Model& model, const std::string& what, std::size_t labels = 2);

// Error(config) when the model has no head that gives each token one of two labels or more.
HONE_API const Classifier& require_token_classifier(const Model& model, const std::string& what);

// Error(config) when the model has no head that says where the answer to a question stands.
HONE_API const Classifier& require_question_answerer(const Model& model, const std::string& what);

// Error(config) when the model has no language-model head, or reads sources; `what` needs one that continues texts
// ("objective causal_lm").
HONE_API const CausalLm& require_causal_lm(const Model& model, const std::string& what);
// Error(config) when the model has no language-model head; one that reads sources will do ("generate").
HONE_API const CausalLm& require_language_model(const Model& model, const std::string& what);
// Error(config) when the model does not read sources.
HONE_API const Seq2SeqLm& require_seq2seq_lm(const Model& model, const std::string& what);

}  // namespace hone
