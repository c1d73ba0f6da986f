// Training kinds: what the loss of a batch is.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hone/model.h"
#include "hone/tracker.h"

namespace hone {

class Evaluation;  // hone/evaluation.h
class Random;      // hone/random.h
class World;       // hone/world.h

// A model that is not trained, and which of the adapters on its weights a pass through it takes (Pass::adapter): the
// model below them is one of its own at no cost.
struct RoleModel {
  const Model& model;
  std::string adapter = kDefaultAdapter;
};

// Further models of a run: a teacher, a reference.
class HONE_API Resources {
 public:
  virtual ~Resources() = default;
  // The one that Objective::needs() has under this role: on the run's device and in its precision. Loaded when it is
  // first asked for, unless the run has done so before.
  virtual RoleModel model(const std::string& role) const = 0;
};

// What an objective may look at while it prepares a step; the same on every rank.
struct StepContext {
  Model& model;
  const World& world;
  const Resources& resources;
  std::int64_t step = 0, update = 0;  // done so far: steps, as the user counts them, and updates of the weights
  std::uint64_t seed = 0;             // of the run
  std::shared_ptr<const Tokenizer> tokenizer = {};
  std::function<std::string(std::int64_t record)> record_name = {};  // TrainingData::record_name
  // Makes of a pass the one that this micro-batch of the step's only update will be learnt in: of the same random
  // numbers. Empty in evaluations.
  std::function<void(Pass& pass, std::size_t micro_batch)> as_learnt = {};
  double epoch = 0;  // of the data, as the step begins; 0 where nobody knows
  std::int64_t max_length = 0;  // data.max_length; 0 where nobody knows
  // Further records for this step, as many as it has: later steps' are then later ones. Of all ranks at once; empty:
  // the data have ended. There where Needs::asks_for_more is, but in evaluations.
  std::function<Group()> more = {};
  // Writes lines of JSON that name the step into the run folder's completions.jsonl: what rank 0 gives. There on all
  // ranks where this step's numbers are logged, else empty.
  std::function<void(const std::vector<std::string>& lines)> tell_answers = {};
};

// How a model beside the one that is trained follows it: after each `every` steps its weights are 1 - share times
// themselves and share times those of the model.
struct Following {
  std::int64_t every = 1;
  double share = 1;
  std::string option = {};  // that asks for it
};

// Texts of other records that a query is read with.
struct DrawnTexts {
  std::optional<std::int64_t> most = {};        // for each query; nothing: all that a step has
  std::optional<std::int64_t> max_length = {};  // of a query and a text together, in tokens; nothing: data.max_length
};

// What an objective needs besides the model.
struct Needs {
  // Of preference records the documents of a group (Doc::group) are in one micro-batch, in one row, whatever the
  // packing.
  RecordKind records = RecordKind::language;
  bool pictures = false;  // records may have some, where the model reads pictures
  ProblemType problem_type = ProblemType::single_label_classification;  // of labelled records
  TokenLabels token_labels = {};  // of tagged records and steps
  std::optional<std::int64_t> max_target_length = {};  // TargetOptions
  std::string source_language = {}, target_language = {};  // likewise
  std::optional<std::int64_t> teacher_log_probs = {};  // Dataset::Options
  double teacher_temperature = 1;                      // likewise
  QuestionOptions questions = {};  // of questions, whose model is given a head that answers them
  // Of labelled and tagged records and steps; empty: those of the model, else of the data. Of others, what a
  // classification head is for that the model is given where it has none; one label is a score.
  std::vector<std::string> labels = {};
  bool compares_records = false;  // of a step with each other: it has several
  bool texts_alone = false;  // texts to embed come one by one, each with a label
  // Of texts to embed prepare() makes rows of a query with each of its texts, and with the step's other records'.
  std::optional<DrawnTexts> draws_texts = {};
  bool masked_lm = false;  // a head for masked tokens, which the model is given where it has none
  // role -> folder, as in a recipe's model.path; "": the model as the run began with it, without what is trained beside
  // its weights.
  std::map<std::string, std::string> models = {};
  bool models_are_language_models = false;  // others are refused before anything starts
  // They are compared with the model token by token: a folder with another tokenizer is refused, one that knows further
  // ids is not.
  bool models_read_same_tokens = false;
  std::set<std::string> models_with_scores = {};  // these roles' models have a head of one label instead
  // They are gone through in document_numbers() alone, once for each batch, and nowhere else: then ranks that share out
  // the trained model (parallel.fsdp) may share out this one.
  bool models_for_numbers_alone = false;
  // document_numbers() are made once, before the first step, and kept by what the documents hold; the models are then
  // let go. Not of streams. "": in each step; else the option that asks for it.
  std::string numbers_first = {};
  // Of records that ask (RecordKind::asked) prepare() makes so many documents each, the model's own answers, of so many
  // tokens behind the prompt at most. No rank can do so that has a share of the model (parallel.fsdp).
  std::int64_t answers = 0, answer_tokens = 0, evaluation_answers = 0;  // the last: of held-out prompts
  std::optional<std::int64_t> answers_at_once = {};                    // nothing: all of a micro-batch
  bool asks_for_more = false;  // StepContext::more: then steps have all the same number of rows, and length
  bool keeps_turns = false;  // of as many answers keys and values are kept meanwhile, for their next turns
  std::string compares_answers = {};  // what needs something to compare them with, in every record; "": nothing does
  // prepare() deals a rank's micro-batches out to so many groups, and gives each of these so many times.
  std::int64_t updates = 1, iterations = 1;
  // Of these roles the models are made like the one that is trained, and follow it. Not below adapters, nor where ranks
  // have shares of the model (parallel.fsdp).
  std::map<std::string, Following> following = {};
  std::string query_prompt = {}, document_prompt = {}, teacher_prompt = {};  // Dataset::Options
  // Likewise; the model is given a projection of its hidden states where it has none.
  std::optional<TokenVectorOptions> token_vectors = {};
  // role -> folder of a model with a head of one label, which it is given where it has none: trained with the model and
  // found beside it (Module::beside), with files of its own. "": the model as the run began with it, with such a head.
  std::map<std::string, std::string> trained_beside = {};
};

// Plug-in (src/objectives).
class HONE_API Objective {
 public:
  static constexpr std::string_view kInterface = "objective";
  virtual ~Objective() = default;
  virtual Needs needs() const { return {}; }
  virtual void check(const Model&) const {}  // Error(config): what this model lacks
  // What is measured on evaluation sets: names of evaluations.
  virtual std::vector<std::string> evaluations() const = 0;
  // Whether loss() itself is measured there, too: the loss, and these of its terms and metrics, by their names.
  virtual std::optional<std::vector<std::string>> measures() const { return std::nullopt; }
  // More evaluations, made with this objective's own options.
  virtual std::vector<std::shared_ptr<const Evaluation>> further_evaluations() const { return {}; }
  // Small files that stand beside the model's in its checkpoints, by name: what it is to be used with.
  virtual std::map<std::string, std::string> folder_files(const Model&, std::int64_t /*max_length*/) const {
    return {};
  }

  // Numbers of each of a batch's documents, [docs], that depend on nothing but the document and models that are not
  // trained, such as its log-probability by a reference. Called without a graph; loss() finds them in batch.extra, in
  // training and in evaluations, prepare() and sums() need not. Where they are not made first (Needs::numbers_first),
  // they may be any tensors, such as a teacher's hidden states.
  virtual std::map<std::string, Tensor> document_numbers(const Batch&, const Resources&) const { return {}; }

  // Sees the whole step before anything is counted; several groups are several updates of the weights.
  virtual Groups prepare(Group group, StepContext&) {
    Groups groups;
    groups.push_back(std::move(group));
    return groups;
  }
  // What loss() measures of a batch of held-out data, once for each; default: the batch as it is. Called without a
  // graph, on all ranks that have one.
  virtual Batch prepare_evaluation(Batch batch, StepContext&) { return batch; }
  // Meanwhile on a rank that has none: its part in passes through models whose weights are shared out.
  virtual void idle_evaluation(StepContext&) {}
  // What loss() has to learn from in a micro-batch, by the names that its terms are divided by; known before any
  // forward pass. A micro-batch that has nothing of any is passed over; a term of which the whole step has nothing, 0,
  // is left out of it. ("tokens", "rows", "documents" need not be counted.)
  virtual Sums sums(const Batch& batch) const = 0;
  // Whether the model says how likely each label is. Then drawn() is the batch with labels that it drew itself where
  // the batch has some; what it draws depends on `random` alone. Called without a graph.
  virtual bool draws_labels() const { return false; }
  virtual Batch drawn(const Model&, const Output&, const Batch& batch, const Pass&, const Random& /*random*/) const {
    return batch;
  }
  // `output` is what the model gave for the batch. Terms that layers added to the pass are not returned again.
  virtual LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const = 0;
  // Whether loss() is made of tensors of the model, the output and the batch alone, without the batch's docs, numbers
  // and extra, and without what an earlier call left behind: then a device may remember the work of a pass and do it
  // again with other tensors.
  virtual bool is_recordable() const { return false; }
  // Whether sums() and loss() are sums over tokens, each by itself, so that several ranks may compute a micro-batch
  // together (parallel.context): then they are given some of its tokens. prepare() sees all of them on each rank.
  virtual bool takes_context() const { return false; }
  // Whether that is so, too, where each of them has a slice of the weights (parallel.tensor): of the head it asks
  // for losses of labels alone (nn::Head::cross_entropy).
  virtual bool takes_tensor() const { return false; }
  // Adds to what is logged of an update, by what its terms are divided by, over all micro-batches and ranks.
  virtual void measure_step(const Sums& /*amounts*/, std::map<std::string, Metric>& /*metrics*/) const {}
  // Numbers of its own that updates have changed, by names: kept in checkpoints and given back when a run goes on.
  virtual Sums state() const { return {}; }
  virtual void set_state(const Sums& /*state*/) {}
  // Adds to the numbers of a log line those that follow from them, such as exp of a mean.
  virtual void derive(Metrics& /*line*/) const {}
};

}  // namespace hone
