// What the model writes while it learns: samples.jsonl in the run folder.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "base/signals.h"
#include "callbacks/run_file.h"
#include "data/choose_template.h"
#include "generate/engine.h"
#include "generate/rows.h"
#include "generate/writers.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/data.h"
#include "hone/generate.h"
#include "hone/random.h"
#include "hone/registry.h"
#include "hone/world.h"
#include "io/metrics_file.h"
#include "text/chat/chat_printed.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/language.h"

namespace hone::callbacks {
namespace {

constexpr const char* kFile = "samples.jsonl";

struct SamplesConfig {
  std::int64_t every = 0;
  bool after_evaluation = false;
  std::vector<std::string> prompts;
  bool chat = false;
  std::string system, from, file = kFile;
  std::int64_t count = 4;
  double prompt_share = 0.5;
  std::int64_t max_new_tokens = 64;
  bool do_sample = false;
  std::optional<double> temperature, top_p;
  std::optional<std::int64_t> top_k;
  std::int64_t num_return_sequences = 1;
  std::uint64_t seed = 0;
  bool print = false;
  static constexpr auto fields() {
    using C = SamplesConfig;
    return std::tuple{
        field("every", &C::every, "Steps between samples; 0 = not by steps.", at_least(0)),
        field("after_evaluation", &C::after_evaluation,
              "Samples after each evaluation, of the weights that were evaluated."),
        field("prompts", &C::prompts, "Texts to go on with; of a model with an encoder, to answer."),
        field("chat", &C::chat, "Each prompt is what a user says, through the tokenizer's chat template."),
        field("system", &C::system, "With chat: the system message."),
        field("from", &C::from,
              "Prompts from the data as well: train, eval (the first set), or a set's name. Of pairs and "
              "conversations what stands before the first answer, of texts their beginning; of a model with an encoder "
              "its sources."),
        field("count", &C::count, "How many prompts are taken from the data.", at_least(1)),
        field("prompt_share", &C::prompt_share, "How much of a text is its beginning.", {.low = 0, .high = 1}),
        field("max_new_tokens", &C::max_new_tokens, "Tokens to generate at most.", at_least(1)),
        field("do_sample", &C::do_sample, "Draw tokens; otherwise always the likeliest one."),
        field("temperature", &C::temperature, "With do_sample: logits are divided by it; default: 1.", at_least(1e-6)),
        field("top_p", &C::top_p,
              "With do_sample: among the likeliest tokens that together have this probability; default: 1.",
              {.low = 0, .high = 1}),
        field("top_k", &C::top_k, "With do_sample: among so many of the likeliest tokens; default: all.", at_least(1)),
        field("num_return_sequences", &C::num_return_sequences, "With do_sample: answers to each prompt.",
              {.low = 1, .high = 1024}),
        field("seed", &C::seed, "Of what is drawn; at each step the same, so that samples can be compared."),
        field("print", &C::print, "Samples in the log as well."),
        field("file", &C::file, "Name of the file in the run folder; a second callback of this type needs another.")};
  }
  void validate(Problems& problems) const {
    problems.require(every > 0 || after_evaluation, "every", "missing: every, after_evaluation or both");
    problems.require(!prompts.empty() || !from.empty(), "prompts", "missing: prompts, from or both");
    problems.require(chat || system.empty(), "system", "only with chat: true");
    const auto drawn = [&](bool given, const char* option) {
      problems.require(do_sample || !given, option, "only with do_sample: true");
    };
    drawn(temperature.has_value(), "temperature");
    drawn(top_p.has_value(), "top_p");
    drawn(top_k.has_value(), "top_k");
    drawn(num_return_sequences > 1, "num_return_sequences");
    check_run_file(file, "file", problems, kFile);
  }
  GenerateConfig generation() const {
    GenerateConfig made;
    made.max_new_tokens = max_new_tokens;
    made.temperature = do_sample ? temperature.value_or(1) : 0;
    made.top_p = top_p.value_or(1);
    made.top_k = top_k.value_or(0);
    made.seed = seed;
    return made;
  }
};

struct Prompt {
  std::string source;  // "prompts", or the data set's name
  std::vector<std::int32_t> ids;
  std::string text;
  std::optional<std::string> reference;  // how the data go on
  std::vector<DocPicture> pictures = {};
};

std::vector<std::int32_t> to_ids(std::span<const std::int64_t> ids) { return {ids.begin(), ids.end()}; }

// What stands before the first token that is learnt; of a document that is learnt whole, its beginning. Nothing: there
// is no such part. asked: one without labels is a prompt.
std::optional<Prompt> prompt_of(const HostDoc& doc, double share, bool asked, const Tokenizer& tokenizer) {
  const auto is_learnt = [](std::int64_t target) { return target != -100; };
  const auto first = std::find_if(doc.targets.begin(), doc.targets.end(), is_learnt);
  if (asked && first == doc.targets.end()) {
    Prompt made{"", to_ids(doc.ids), "", std::nullopt, doc.pictures};
    made.text = tokenizer.decode(made.ids, /*skip_special=*/false);
    return made;
  }
  if (doc.role == Role::rejected || first == doc.targets.end() || doc.ids.size() < 2) return std::nullopt;
  auto begin = static_cast<std::size_t>(first - doc.targets.begin()) + 1;  // targets lie one place before their token
  std::size_t end = begin;
  while (end < doc.ids.size() && is_learnt(doc.targets[end - 1])) ++end;
  if (begin == 1) {
    begin = static_cast<std::size_t>(std::lround(share * static_cast<double>(end)));
    begin = std::clamp<std::size_t>(begin, 1, std::max<std::size_t>(1, end - 1));
  }
  const std::span<const std::int64_t> ids(doc.ids);
  Prompt made{"", to_ids(ids.first(begin)), "", tokenizer.decode(to_ids(ids.subspan(begin, end - begin)))};
  for (const DocPicture& one : doc.pictures)  // whose tokens are not learnt, so that none is cut
    if (one.begin < static_cast<std::int64_t>(begin)) made.pictures.push_back(one);
  made.text = tokenizer.decode(made.ids, /*skip_special=*/false);
  return made;
}

// The sources of a row, each with what the data make of it.
std::vector<Prompt> sources_of(const HostRow& row, const Tokenizer& tokenizer) {
  std::vector<Prompt> all;
  for (const HostDoc& doc : row) {
    if (doc.role == Role::source) {
      all.push_back({"", to_ids(doc.ids), "", std::nullopt});
      all.back().text = tokenizer.decode(all.back().ids, /*skip_special=*/false);
    } else if (doc.role == Role::target && !all.empty()) {
      std::vector<std::int32_t> target;
      for (const std::int64_t id : doc.targets)
        if (id != -100) target.push_back(static_cast<std::int32_t>(id));
      all.back().reference = tokenizer.decode(target);
    }
  }
  return all;
}

class Samples final : public Callback, public generate::LanguageWriter {
 public:
  using Config = SamplesConfig;
  explicit Samples(const Config& config) : config_(config) {}

  // What is wrong with a recipe is said on every rank; the first one alone makes samples.
  CallbackTimes times() const override { return {.every_n_steps = config_.every, .main_process_only = false}; }
  bool sees_gradients() const override { return false; }
  void take_languages(const std::string& source, const std::string& target) override {
    source_language_ = source, target_language_ = target;
  }

  void on_training_start(const TrainView& view) override {
    if (view.weights->shared_out())
      throw Error(ErrorKind::config, "callbacks: samples: not with parallel.fsdp or parallel.tensor, where no rank has "
                                     "a whole model")
          .hint("hone generate makes samples of each checkpoint");
    require_language_model(view.model, "callback samples");
    if (config_.chat) require_causal_lm(view.model, "callback samples with chat");
    generation_ = config_.generation();
    take_template(*view.tokenizer);
    if (!target_language_.empty())
      generation_.forced_bos_token_id =
          text::LanguageMark(*view.tokenizer, target_language_, "objective.tgt_lang").id();
    for (std::size_t i = 0; i < config_.prompts.size(); ++i) prompts_.push_back(given(view, i));
    if (!config_.from.empty()) take_from(view);
    for (std::size_t i = 0; i < prompts_.size(); ++i)
      hone::generate::check_pictures(view.model, prompts_[i].ids, prompts_[i].pictures,
                                     fmt::format("callbacks: samples: prompt {}", i + 1));
    if (!view.world->is_first()) return;
    file_.emplace(Env::process().open_folder(view.run_folder), config_.file);
    const double last = std::max(written_, written_averages_);
    file_->keep_up_to(last >= 0 || view.step == 0 ? static_cast<std::int64_t>(last) : view.step);
    const bool due = config_.every > 0 && view.step > 0 && view.step % config_.every == 0;
    if (due && written_ < static_cast<double>(view.step)) sample(view);  // a signal had come between
  }

  Action on_step_end(const TrainView& view, Metrics&) override {
    sample(view);
    return Action::go_on;
  }
  Action on_evaluation_end(const TrainView& view, Metrics&) override {
    if (config_.after_evaluation && written(view) != static_cast<double>(view.step)) sample(view);
    return Action::go_on;
  }
  void visit_state(const StateVisitor& visit) override {
    visit("written", written_);
    visit("written_averages", written_averages_);
  }

 private:
  // Averages write other texts than the weights that they are averages of, in the same step.
  double& written(const TrainView& view) { return view.weights->averaged() ? written_averages_ : written_; }

  // Answers end where the template's turns do, too.
  void take_template(const Tokenizer& tokenizer) {
    std::shared_ptr<const text::ChatTemplate> found;
    try {
      found = text::ChatTemplate::of(tokenizer);
    } catch (const Error&) {
      if (config_.chat) throw;
    }
    if (config_.chat && !found)
      throw Error(ErrorKind::config, "callbacks: samples.chat: the tokenizer has no chat template")
          .hint("data.chat_template gives it one");
    template_ = found;
    if (found) generation_.eos_token_id = data::ends_of_answers(tokenizer);
  }

  Prompt given(const TrainView& view, std::size_t i) const {
    const Tokenizer& tokenizer = *view.tokenizer;
    const std::string where = fmt::format("callbacks: samples.prompts.{}", i);
    Prompt made{"prompts", {}, config_.prompts[i], std::nullopt};
    made.ids = view.model.seq2seq_lm() ? generate::source_ids(tokenizer, made.text, source_language_)
               : config_.chat ? tokenizer.encode(chat_text(view, config_.prompts[i], where), /*special=*/false).ids
                            : generate::prompt_ids(tokenizer, made.text);
    if (made.ids.empty())
      throw Error(ErrorKind::config, where + ": no tokens; expected at least one")
          .hint("give it some text, or take a tokenizer with a beginning-of-sequence token");
    const std::int64_t most = view.model.max_positions(), length = std::ssize(made.ids);
    if (view.model.positions_are_learned() && length > most)
      throw Error(ErrorKind::config,
                  fmt::format("{}: {} tokens; expected at most {}, the positions that this model has learned", where,
                              length, most));
    return made;
  }

  std::string chat_text(const TrainView& view, const std::string& prompt, const std::string& where) const {
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    const auto add = [&](const char* role, const std::string& content) {
      messages.push_back({{"role", role}, {"content", content}});
    };
    if (!config_.system.empty()) add("system", config_.system);
    add("user", prompt);
    const Conversation conversation{messages.dump(), "", "", view.chat_template_kwargs, -1};
    const text::Chat chat = text::chat_for(*template_, conversation, where);
    const auto now = static_cast<std::int64_t>(wall_seconds());
    return template_->render(chat, {.generation_prompt = true, .now = now}).text;
  }

  static const Dataset& data_of(const TrainView& view, std::string& name) {
    if (name == "train") {
      if (view.train_data) return *view.train_data;
      throw Error(ErrorKind::config, "callbacks: samples.from: the training data are a stream, which is read once")
          .hint("take prompts from an evaluation set, or give some");
    }
    std::string known = "train, eval";
    for (const NamedDataset& set : view.eval_data) {
      if (name == set.name || name == "eval") return name = set.name, *set.data;
      known += ", " + set.name;
    }
    if (name == "eval")
      throw Error(ErrorKind::config, "callbacks: samples.from: there is no evaluation set; expected data.eval");
    throw Error(ErrorKind::config,
                fmt::format("callbacks: samples.from: got {}, expected one of {}", hone::quoted(name), known));
  }

  std::vector<Prompt> prompts_in(const TrainView& view, const Dataset& data, const HostRow& row) const {
    if (view.model.seq2seq_lm()) return sources_of(row, *view.tokenizer);
    std::vector<Prompt> all;
    for (const HostDoc& doc : row)
      if (auto prompt = prompt_of(doc, config_.prompt_share, data.report().asked > 0, *view.tokenizer))
        all.push_back(std::move(*prompt));
    return all;
  }

  // The first rows of an order that the seed decides.
  void take_from(const TrainView& view) {
    std::string name = config_.from;
    const Dataset& data = data_of(view, name);
    const Random random(config_.seed, "samples");
    const std::size_t wanted = prompts_.size() + static_cast<std::size_t>(config_.count);
    const auto rows = static_cast<std::uint64_t>(data.rows());
    for (std::uint64_t i = 0; i < rows && prompts_.size() < wanted; ++i)
      for (Prompt& prompt : prompts_in(view, data, data.row(static_cast<std::int64_t>(random.permuted(i, rows))))) {
        if (prompts_.size() == wanted) break;
        prompt.source = name;
        prompts_.push_back(std::move(prompt));
      }
    if (prompts_.size() < wanted && view.world->is_first())
      log::warning("callback samples: {} of {} prompts, all that the data set {} has",
                   config_.count - static_cast<std::int64_t>(wanted - prompts_.size()), config_.count, name);
  }

  // What goes wrong here is no reason for a run to end.
  void sample(const TrainView& view) {
    if (!view.world->is_first()) return;
    try {
      StopSignal::check("samples");
      write(view, generate(view));
    } catch (const Error& error) {
      if (error.kind() == kStopped)
        log::info("step {}: no samples, as the run is about to stop", view.step);
      else
        warnings_.warning(fmt::format("step {}: no samples: {}", view.step, error.what()));
    } catch (const std::exception& error) {
      warnings_.warning(fmt::format("step {}: no samples: {}", view.step, error.what()));
    }
  }

  std::vector<Generated> generate(const TrainView& view) const {
    std::vector<std::vector<std::int32_t>> ids;
    std::vector<std::vector<DocPicture>> pictures;
    for (const Prompt& prompt : prompts_)
      for (std::int64_t k = 0; k < config_.num_return_sequences; ++k)
        ids.push_back(prompt.ids), pictures.push_back(prompt.pictures);
    // It is the run's, and outlives the generator.
    Generator generator(view.model, std::shared_ptr<const Tokenizer>(std::shared_ptr<void>(), view.tokenizer));
    return generator.generate(
        ids, generation_, [](std::size_t, const std::string&) { StopSignal::check("samples"); }, {}, {}, {}, pictures);
  }

  void write(const TrainView& view, const std::vector<Generated>& made) {
    written(view) = static_cast<double>(view.step);
    for (std::size_t i = 0; i < made.size(); ++i) {
      const auto copies = static_cast<std::size_t>(config_.num_return_sequences);
      const Prompt& prompt = prompts_[i / copies];
      nlohmann::json line{{"step", view.step},
                          {"from", prompt.source},
                          {"prompt", prompt.text},
                          {"text", made[i].text},
                          {"tokens", made[i].ids.size()},
                          {"finish_reason", name_of(made[i].reason)}};
      if (view.weights->averaged()) line["weights"] = "average";
      if (copies > 1) line["sample"] = i % copies;
      if (prompt.reference) line["reference"] = *prompt.reference;
      file_->append(line);
      if (config_.print) log::info("step {}: {} -> {}", view.step, shown(prompt.text), shown(made[i].text));
    }
  }

  static const char* name_of(FinishReason reason) {
    return reason == FinishReason::eos ? "eos" : reason == FinishReason::stop ? "stop" : "length";
  }
  // On one line, and nothing that a terminal obeys.
  static std::string shown(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  Config config_;
  GenerateConfig generation_;
  std::shared_ptr<const text::ChatTemplate> template_;
  std::vector<Prompt> prompts_;
  std::string source_language_, target_language_;  // of the objective; "": the tokenizer's own
  std::optional<io::MetricsFile> file_;
  log::Limiter warnings_;
  double written_ = -1, written_averages_ = -1;  // the step of the last lines; -1: none
};

}  // namespace

void register_samples(Registries& hone) {
  hone.callbacks.add<Samples>("samples", "Texts that the model writes while it learns, in samples.jsonl.");
}

}  // namespace hone::callbacks
