// hone teach: what a model expects of each learnt token of given records, for other models to learn from.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <optional>

#include "base/env.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cli/model_place.h"
#include "cli/read_data.h"
#include "cli/teacher_says.h"
#include "cli/text_length.h"
#include "data/choose_template.h"
#include "data/place.h"
#include "data/template_variables.h"
#include "data/tokenise.h"
#include "hone/command.h"
#include "hone/registry.h"
#include "io/ownership.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

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

// Lines for standard output, or for a file that appears when it is whole.
class TaughtFile {
 public:
  explicit TaughtFile(const std::string& path) {
    if (path.empty()) return;
    path_ = fs::absolute(path).lexically_normal();
    io::require_writable(path_.parent_path(), ErrorKind::data);
    if (std::error_code ignored; fs::exists(fs::symlink_status(path_, ignored)))
      throw Error(ErrorKind::data, path + ": is there already; nothing was written")
          .hint("choose another name, or move it away");
    folder_.emplace(Env::process().open_folder(path_.parent_path(), ErrorKind::data));
    folder_->remove(hidden());  // of a process that was killed here
    out_.emplace(folder_->create(hidden()));
  }
  TaughtFile(const TaughtFile&) = delete;
  ~TaughtFile() {
    if (!out_) return;
    out_.reset();
    std::error_code ignored;
    fs::remove(path_.parent_path() / hidden(), ignored);  // frees the space
  }
  void write(const std::string& line) { out_ ? out_->write(line) : void(std::cout << line); }
  void finish() {
    if (!out_) return;
    out_->sync();
    out_->close();
    folder_->rename(hidden(), *folder_, path_.filename().string());
    folder_->sync();
    out_.reset();
  }

 private:
  std::string hidden() const { return Folder::kNew + path_.filename().string(); }
  fs::path path_;
  std::optional<Folder> folder_;
  std::optional<OutFile> out_;
};

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
                    "them."),
              field("top_k", &C::top_k, "So many of the likeliest tokens at each place.", at_least(1)),
              field("temperature", &C::temperature,
                    "What logits are divided by; a training is told of another than 1 by "
                    "objective.teacher_temperature.",
                    {.low = 0.01, .high = 100}),
              field("columns", &C::columns,
                    "Renamed field, as text=story: read the field `story` as `text`; or a template, as text={{ a }}: "
                    "{{ b }}; may be given several times."),
              field(
                  "ignore", &C::ignore,
                  "Field that other kinds of training use and that is to be passed over; may be given several times."),
              field("tokenizer", &C::tokenizer,
                    "bytes, none (for rows of ids), a folder or a tokenizer.json; default: the model's own."),
              field("adapter", &C::adapter, "Folder of a LoRA adapter, of PEFT or of a run, to put on the model."),
              field("append_eos", &C::append_eos, "End each text with the tokenizer's end-of-sequence token."),
              field("loss", &C::loss,
                    "Which tokens are learnt, and asked about: all, the assistant's turns, the last of them, or the "
                    "completion; default: all of a text, the completion of a pair, the assistant's turns of a "
                    "conversation."),
              field("chat_template", &C::chat_template,
                    "Chat template instead of the tokenizer's own: a file, a text, or a name such as chatml."),
              field("chat_template_kwargs", &C::chat_template_kwargs,
                    "Variables of the chat template for conversations that do not say otherwise, a JSON object as in "
                    "'{\"enable_thinking\": false}'."),
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
    TaughtFile file(flags_.out);
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
    ask_all(lm, *tokenizer, file);
    file.finish();
    tell();
    return 0;
  }

 private:
  void ask_all(const CausalLm& lm, const Tokenizer& tokenizer, TaughtFile& file) {
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
      if (waiting_.size() == kBatchesAsked * static_cast<std::size_t>(flags_.batch_size)) ask_waiting(lm, file);
    });
    ask_waiting(lm, file);
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
    waiting_.push_back(std::move(tokens));
  }

  // Documents of like length are computed together, and written in their order.
  void ask_waiting(const CausalLm& lm, TaughtFile& file) {
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
    for (const std::string& line : lines) file.write(line);
    records_ += std::ssize(lines);
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
  std::int64_t records_ = 0, cut_ = 0, passed_over_ = 0;
  std::vector<Tokens> waiting_;
};

}  // namespace

void register_teach(Registries& hone) {
  hone.commands.add<Teach>("teach", "What a model expects of each token of records, to be learnt by another one.");
}

}  // namespace hone::cli
