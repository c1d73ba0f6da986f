// hone teach: what a model expects of each learnt token of given records, for other models to learn from.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <numeric>
#include <optional>

#include "base/hash.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cli/model_place.h"
#include "cli/read_data.h"
#include "cli/record_flags.h"
#include "cli/taught_file.h"
#include "cli/teacher_says.h"
#include "cli/text_length.h"
#include "data/choose_template.h"
#include "data/place.h"
#include "data/template_variables.h"
#include "data/tokenise.h"
#include "hone/command.h"
#include "hone/registry.h"
#include "hub/hash.h"

namespace hone::cli {
namespace {

constexpr std::size_t kBatchesAsked = 16;  // so many are sorted by length before they are computed

// "[1,2],null,...": of each place so many of the values, or nothing.
template <class T>
std::string places_text(const TeacherLogProbs& said, const std::vector<T>& values) {
  std::string text;
  auto at = values.begin();
  for (const std::uint32_t count : said.counts) {
    if (!text.empty()) text += ',';
    if (count == 0) text += "null";
    else text += fmt::format("[{}]", fmt::join(at, at + count, ","));
    at += count;
  }
  return text;
}

// A record as objective distillation reads it; labels where some tokens are not learnt.
std::string line_of(const Tokens& tokens, const TeacherLogProbs& said) {
  const std::string labels =
      tokens.labels == tokens.ids ? "" : fmt::format("\"labels\":[{}],", fmt::join(tokens.labels, ","));
  return fmt::format("{{\"input_ids\":[{}],{}\"logprobs\":[{}],\"target_token_ids\":[{}]}}\n",
                     fmt::join(tokens.ids, ","), labels, places_text(said, said.log_probs),
                     places_text(said, said.ids));
}

class Teach final : public Command {
 public:
  struct Config : ModelFlags {
    using Base = ModelFlags;
    std::string data, out, tokenizer, adapter, chat_template, chat_template_kwargs;
    std::vector<std::string> columns, ignore;
    std::int64_t top_k = 64, batch_size = 8;
    double temperature = 1;
    bool append_eos = true;
    std::optional<Loss> loss;
    std::optional<std::int64_t> max_length, max_samples;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          std::tuple{
              field("data", &C::data, "File of records, in any form that a language model is trained on."),
              field("out", &C::out,
                    "Write the records to this JSON Lines file, which appears when it is whole, instead of printing "
                    "them; what was stopped goes on where it was."),
              field("top_k", &C::top_k, "So many of the likeliest tokens at each place.", at_least(1)),
              field("temperature", &C::temperature,
                    "What logits are divided by; a training is told of another than 1 by "
                    "objective.teacher_temperature.",
                    {.low = 0.01, .high = 100}),
              columns_flag<C>(),
              ignore_flag<C>(),
              tokenizer_or_none_flag<C>(),
              adapter_flag<C>(),
              append_eos_flag<C>(),
              field("loss", &C::loss,
                    "Which tokens are learnt, and asked about: all, the assistant's turns, the last of them, or the "
                    "completion; default: all of a text, the completion of a pair, the assistant's turns of a "
                    "conversation."),
              chat_template_flag<C>(),
              chat_template_kwargs_flag<C>(),
              field("max_length", &C::max_length,
                    "Most tokens of a record; default: the positions the model was made for, at most 2048. Longer "
                    "ones lose their end; how many is said.",
                    at_least(2)),
              field("max_samples", &C::max_samples, "Only this many records, the first ones.", at_least(1)),
              field("batch_size", &C::batch_size, "Records per forward pass.", at_least(1))},
          Base::fields());
    }
  };
  explicit Teach(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"MODEL --data FILE --out FILE  (without --out: standard output)",
            {"hone teach runs/teacher --data train.jsonl --out taught.jsonl",
             "hone teach runs/teacher --data chats.jsonl --out taught.jsonl --top-k 16"},
            1,
            1};
  }

  int run(const Invocation& call) override {
    if (flags_.data.empty()) throw Error(ErrorKind::usage, "--data: missing; expected a file of records");
    if (!flags_.out.empty()) file_.emplace(flags_.out);
    const ModelPlace place = model_place(call.positionals[0], flags_.adapter);
    const auto tokenizer = data::with_chat_template(tokenizer_of(place, flags_.tokenizer), flags_.chat_template,
                                                    "--chat-template");
    model_ = load_model(place, flags_);
    const CausalLm& lm = require_causal_lm(*model_, "teach");
    if (flags_.top_k > model_->vocab_size())
      throw Error(ErrorKind::usage, fmt::format("--top-k: got {}, expected at most the model's vocabulary of {}",
                                                flags_.top_k, model_->vocab_size()));
    most_ = static_cast<std::size_t>(flags_.max_length.value_or(usual_length(*model_)));
    model_->check_length(static_cast<std::int64_t>(most_), "--max-length");
    const StopSignal signals;
    if (file_) there_ = file_->begin(facts(place, *tokenizer));
    ask_and_keep(lm, *tokenizer);
    if (file_) file_->finish();
    tell();
    return 0;
  }

 private:
  // What decides about the rows, but for the records themselves.
  TaughtFacts facts(const ModelPlace& place, const Tokenizer& tokenizer) const {
    TaughtFacts made{{"model", hub::hash_of_folder(place.folder)}, {"tokenizer", tokenizer.fingerprint}};
    if (!place.adapter.empty()) made["adapter"] = hub::hash_of_folder(place.adapter);
    const config::Node options = config::write(flags_);
    for (const auto& [option, value] : options.entries())
      if (option != "data" && option != "out" && option != "tokenizer" && option != "adapter")
        made["--" + replace_all(option, "_", "-")] = trim(config::to_json(value, 0));
    return made;
  }

  // What was said stays when the rest cannot be asked.
  void ask_and_keep(const CausalLm& lm, const Tokenizer& tokenizer) {
    const auto kept = [&] { return file_ ? file_->keep() : ""; };
    try {
      ask_all(lm, tokenizer);
    } catch (Error& error) {
      const std::string words = kept();
      if (!words.empty() && error.kind() == kStopped) throw std::move(error).hint(words);
      if (!words.empty()) log::info("{}: {}", flags_.out, words);
      throw;
    } catch (const std::exception&) {  // of LibTorch, as when memory is short
      if (const std::string words = kept(); !words.empty()) log::info("{}: {}", flags_.out, words);
      throw;
    }
  }

  void ask_all(const CausalLm& lm, const Tokenizer& tokenizer) {
    DataFile entry;
    entry.path = flags_.data, entry.columns = parse_columns(flags_.columns), entry.ignore = flags_.ignore;
    entry.max_samples = flags_.max_samples;
    Dataset::Options options;
    options.append_eos = flags_.append_eos, options.loss = flags_.loss;
    data::check_variables(flags_.chat_template_kwargs, "--chat-template-kwargs");
    options.chat_template_kwargs = flags_.chat_template_kwargs;
    const data::Tokenising how(tokenizer, options);
    data::each_tokens(entry, how, [&](const data::RecordTokens& tokens, const Record& record) {
      take(tokens, {entry.path, record.line});
      if (waiting_.size() == kBatchesAsked * static_cast<std::size_t>(flags_.batch_size)) ask_waiting(lm);
    });
    if (records_ < there_) file_->check_records("");  // fewer than rows
    ask_waiting(lm);
    if (records_ == 0) throw Error(ErrorKind::data, flags_.data + ": no records with a token that is learnt");
  }

  void take(Tokens tokens, const data::Place& place) {
    cut_ += tokens.ids.size() > most_;
    tokens.ids.resize(std::min(tokens.ids.size(), most_)), tokens.labels.resize(tokens.ids.size());
    const auto learnt = [](std::int32_t label) { return label != -100; };
    if (tokens.ids.size() < 2 || std::none_of(tokens.labels.begin() + 1, tokens.labels.end(), learnt)) {
      ++passed_over_;
      return;
    }
    if (const std::int64_t highest = *std::max_element(tokens.ids.begin(), tokens.ids.end());
        highest >= model_->vocab_size())
      throw Error(ErrorKind::data, fmt::format("{}: token id {}; expected less than the model's vocabulary of {}",
                                               place.text(), highest, model_->vocab_size()))
          .hint("is this the model's tokenizer?");
    seen_.update_int(tokens.ids.size());
    seen_.update(std::as_bytes(std::span(tokens.ids))).update(std::as_bytes(std::span(tokens.labels)));
    if (records_ == there_) return waiting_.push_back(std::move(tokens));
    if (++records_ == there_) file_->check_records(hex64(seen_.digest64()));
  }

  // Documents of like length are computed together, and written in their order.
  void ask_waiting(const CausalLm& lm) {
    std::vector<std::size_t> order(waiting_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return waiting_[a].ids.size() > waiting_[b].ids.size(); });
    std::vector<std::string> lines(order.size());
    const auto batch = static_cast<std::size_t>(flags_.batch_size);
    for (std::size_t begin = 0; begin < order.size(); begin += batch) {
      StopSignal::check("asking the teacher");
      const std::size_t end = std::min(order.size(), begin + batch);
      std::vector<Tokens> documents;
      for (std::size_t i = begin; i < end; ++i) documents.push_back(waiting_[order[i]]);
      const std::vector<TeacherLogProbs> said = teacher_says(lm, documents, {flags_.top_k, flags_.temperature});
      for (std::size_t i = begin; i < end; ++i) lines[order[i]] = line_of(documents[i - begin], said[i - begin]);
    }
    if (file_) file_->write(lines, hex64(seen_.digest64()));
    else for (const std::string& line : lines) std::cout << line;
    records_ += std::ssize(lines), there_ = records_;
    waiting_.clear();
  }

  void tell() const {
    if (!flags_.out.empty())
      log::info("{}: {}, {} tokens at each place", flags_.out, counted(records_, "record"), flags_.top_k);
    if (cut_ > 0) log::warning("{} longer than {} tokens, cut", counted(cut_, "record"), most_);
    if (passed_over_ > 0)
      log::warning("{} without a token that is learnt, passed over", counted(passed_over_, "record"));
  }

  Config flags_;
  std::unique_ptr<Model> model_;
  std::size_t most_ = 0;
  std::optional<TaughtFile> file_;
  std::int64_t there_ = 0;    // rows that are written
  std::int64_t records_ = 0;  // that they are of, as far as these have been read again
  std::int64_t cut_ = 0, passed_over_ = 0;
  Hasher seen_;  // of all records that have a row, or wait for one
  std::vector<Tokens> waiting_;
};

}  // namespace

void register_teach(Registries& hone) {
  hone.commands.add<Teach>("teach", "What a model expects of each token of records, to be learnt by another one.");
}

}  // namespace hone::cli
