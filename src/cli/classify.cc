// hone classify: the labels, numbers or scores that a model with a classification head gives texts, or their words.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cli/classify_questions.h"
#include "cli/classify_tokens.h"
#include "cli/lists_to_classify.h"
#include "cli/model_place.h"
#include "cli/output.h"
#include "cli/prompt_file.h"
#include "cli/read_data.h"
#include "cli/record_flags.h"
#include "cli/run_recipe.h"
#include "cli/text_length.h"
#include "cli/texts_to_classify.h"
#include "data/choose_template.h"
#include "data/fields.h"
#include "data/tokenise.h"
#include "hone/command.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "hub/cross_encoder.h"
#include "nn/finite.h"
#include "tensor/host.h"
#include "train/inputs.h"
#include "train/state.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;

using Columns = std::map<std::string, std::string>;

// Of a score: whether the columns are those of answers, and not of labelled texts; nothing: there are none.
std::optional<bool> are_of_answers(const Columns& columns) {
  const auto is_of_text = [](const auto& column) { return column.first == kTextField || column.first == kPairField; };
  if (columns.empty()) return std::nullopt;
  const bool any_of_texts = std::any_of(columns.begin(), columns.end(), is_of_text);
  if (any_of_texts && !std::all_of(columns.begin(), columns.end(), is_of_text))
    throw Error(ErrorKind::usage,
                "--columns: text and text_pair are of texts, the others of answers; expected those of one");
  return !any_of_texts;
}

// What the columns cannot be is the command line's matter here.
template <class Work>
void read_as_flag(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) throw;
    throw Error(ErrorKind::usage, error.what());
  }
}

class Classify final : public Command {
 public:
  struct Config : QuestionFlags {
    using Base = QuestionFlags;
    std::vector<std::string> text, columns;
    std::optional<std::string> text_pair;
    std::string data, tokenizer, adapter, chat_template;
    std::optional<std::int64_t> max_length;
    std::int64_t batch_size = 8;
    bool words = false;
    std::optional<std::string> step_separator;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          std::tuple{
              field("text", &C::text, "A text; may be given several times."),
              field("text_pair", &C::text_pair, "The second of two texts, beside one --text."),
              field("data", &C::data,
                    "A file of texts, - for standard input: lines of a .txt, or objects of .jsonl, .json, .csv, "
                    ".tsv, .parquet with text, and text_pair where there are two; a score is also given of prompt and "
                    "completion, of messages, and of each text of a query with documents, or with positive "
                    "and negatives; labels of words also of tokens (a list of words), and labels of steps of prompt "
                    "and completions; of questions question and context."),
              field("columns", &C::columns,
                    "Renamed field, as text=story: read the field `story` as `text`; or a template, as text={{ a }}: "
                    "{{ b }}; may be given several times. Of a head for one number: text and text_pair say that texts "
                    "are read, query, documents, positive and negatives that lists are, other names that answers are."),
              tokenizer_flag<C>(),
              adapter_flag<C>(),
              chat_template_flag<C>(),
              field("max_length", &C::max_length,
                    "Most tokens of a document; default: of a cross-encoder as its folder says, else what the model's "
                    "run had, else the positions the model was made for, at most 2048; of questions what the run had, "
                    "else 384. Longer ones lose their end, and what is scored its start; how many is said.",
                    at_least(1)),
              field("batch_size", &C::batch_size, "Documents per forward pass.", at_least(1)),
              field("words", &C::words,
                    "Of labels of words: each word with its label, and not the entities that they mark alone."),
              field("step_separator", &C::step_separator,
                    "Of labels of steps: what follows each step; default: what the model's run learnt, else a new "
                    "line.")},
          Base::fields());
    }
  };
  explicit Classify(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"MODEL --text TEXT | --data FILE  (without either: standard input, a text a line)",
            {"hone classify runs/spam --text \"You have won!\"", "hone classify runs/spam --data texts.jsonl --json",
             "hone classify runs/reward --data answers.jsonl", "hone classify runs/names --text \"Ada met Alan.\"",
             "hone classify runs/answers --question \"Who met Alan?\" --context \"Ada met Alan.\""},
            1,
            1};
  }

  int run(const Invocation& call) override {
    json_ = call.json;
    if (!flags_.columns.empty() && !flags_.text.empty())
      throw Error(ErrorKind::usage, "--columns: not together with --text, which has no fields");
    const ModelPlace place = model_place(call.positionals[0], flags_.adapter);
    tokenizer_ = data::with_chat_template(tokenizer_of(place, flags_.tokenizer), flags_.chat_template,
                                          "--chat-template");
    model_ = load_model(place, flags_);
    const bool of_tokens = model_->classifier() && model_->classifier()->of_tokens();
    if (!model_->classifier()) require_classifier(*model_, "classify");
    if (!of_tokens && labels().size() == 1) sigmoid_ = shows_sigmoid(place);
    if (flags_.text_pair && (of_tokens || flags_.text.size() != 1))
      throw Error(ErrorKind::usage, of_tokens ? "--text-pair: this model reads one text"
                                              : "--text-pair: expected beside one --text; --data reads many pairs");
    for (const auto& [given, flag] :
         {std::pair{flags_.words, "words"}, {flags_.step_separator.has_value(), "step-separator"}})
      if (given && !of_tokens)
        throw Error(ErrorKind::usage, fmt::format("--{}: this model gives texts labels, and not their words", flag));
    const bool of_questions = of_tokens && model_->classifier()->answers_questions();
    check_kind(of_questions);
    of_questions ? make_question_answers(place) : of_tokens ? make_token_answers(place) : make_how(place);
    const StopSignal signals;
    const bool one_context = flags_.context.size() == 1;
    for (std::size_t i = 0; i < flags_.question.size(); ++i)
      of_questions_->add({.question = flags_.question[i], .context = flags_.context[one_context ? 0 : i]},
                         {"--question", static_cast<std::int64_t>(i) + 1});
    for (const std::string& text : flags_.text) {
      const data::Place place{"--text", ++told_};
      flags_.text_pair ? add({{kTextField, text}, {kPairField, *flags_.text_pair}}, place) : add(text, place);
    }
    const std::string file = flags_.data.empty() ? "-" : flags_.data;
    if (!flags_.data.empty() || (flags_.text.empty() && flags_.question.empty()))
      read_prompt_file(
          file, [&](const ordered_json& value, const data::Place& where) { add(value, where); },
          parse_columns(flags_.columns));
    finish();
    return 0;
  }

 private:
  const std::vector<std::string>& labels() const { return model_->classifier()->labels(); }
  ProblemType problem_type() const {
    return model_->classifier()->problem_type().value_or(ProblemType::single_label_classification);
  }
  bool gives_labels() const {
    const bool score = labels().size() == 1 && problem_type() == ProblemType::single_label_classification;
    return !score && problem_type() != ProblemType::regression;
  }
  // A score of answers, as a reward model's, that was not learnt of labelled texts.
  bool is_of_answers(const ordered_json& value) const {
    if (gives_labels() || labels().size() > 1) return false;
    const bool of_pairs = has_pair_column_ || (value.is_object() && value.contains(kPairField));
    if (problem_type() != ProblemType::regression) return !of_pairs;  // a cross-encoder reads pairs of texts
    return columns_are_of_answers_.value_or(value.is_object() && !value.contains(kTextField));
  }

  // As the folder says, else as its run learnt.
  bool shows_sigmoid(const ModelPlace& place) const {
    const auto learnt = RunRecipe(place).option("classification", "objective", "regression_loss");
    return hub::shows_sigmoid(*model_, place.folder, learnt == "binary_cross_entropy");
  }

  void check_kind(bool of_questions) const {
    const QuestionFlags& asked = flags_;
    if (!of_questions && asked.any())
      throw Error(ErrorKind::usage, "--question and what goes with it: this model gives labels; expected one that "
                                    "answers questions")
          .hint("objective: question_answering trains one");
    if (of_questions && !flags_.text.empty())
      throw Error(ErrorKind::usage,
                  "--text: this model answers questions; expected --question and --context, or --data");
    if (of_questions && (flags_.words || flags_.step_separator))
      throw Error(ErrorKind::usage, "--words and --step-separator: this model answers questions");
    if (asked.question.empty() != asked.context.empty())
      throw Error(ErrorKind::usage, "--question and --context: expected both or none");
    if (asked.context.size() > 1 && asked.context.size() != asked.question.size())
      throw Error(ErrorKind::usage, fmt::format("--context: got {} for {}; expected one for all, or one for each",
                                                asked.context.size(),
                                                counted(std::ssize(asked.question), "question")));
  }

  void make_question_answers(const ModelPlace& place) {
    QuestionAnswers::How how{.columns = parse_columns(flags_.columns)};
    const WindowSizes sizes = window_sizes(RunRecipe(place), *model_, flags_.max_length, flags_.doc_stride);
    how.max_length = sizes.max_length, how.doc_stride = sizes.doc_stride;
    model_->check_length(how.max_length, "--max-length");
    how.batch_size = flags_.batch_size, how.json = json_;
    read_as_flag([&] { of_questions_.emplace(*model_, *tokenizer_, flags_, std::move(how)); });
  }

  Dataset::Options data_options(const ModelPlace& place) {
    Dataset::Options options;
    options.max_length = text_length(place, *model_, flags_.max_length);
    options.overlong = Overlong::keep_start;
    model_->check_length(options.max_length, "--max-length");
    longest_ = static_cast<std::size_t>(options.max_length);
    return options;
  }

  void make_token_answers(const ModelPlace& place) {
    TokenAnswers::How how{.columns = parse_columns(flags_.columns), .data = data_options(place)};
    how.data.token_labels.step_separator = step_separator_of(place, flags_.step_separator);
    how.batch_size = flags_.batch_size;
    how.words = flags_.words, how.json = json_;
    read_as_flag([&] { of_tokens_.emplace(*model_, *tokenizer_, std::move(how)); });
  }

  // One number for a text, which is what a text is worth to a query, too.
  bool gives_a_score() const { return labels().size() == 1 && !gives_labels(); }

  void make_how(const ModelPlace& place) {
    Dataset::Options options = data_options(place);
    answers_.emplace(*tokenizer_, options);
    options.records = RecordKind::labelled;
    texts_.emplace(*tokenizer_, options);
    Columns columns = parse_columns(flags_.columns);
    const Columns none;
    if (gives_a_score()) {
      const bool of_lists = ListsToClassify::are_columns(columns);
      read_as_flag([&] { lists_.emplace(of_lists ? columns : none); });
      if (of_lists) columns.clear();
    }
    if (problem_type() == ProblemType::regression && labels().size() == 1)
      columns_are_of_answers_ = are_of_answers(columns);
    has_pair_column_ = columns.contains(kPairField);
    const bool of_answers = is_of_answers(ordered_json::object());
    read_as_flag([&] {
      fields_.emplace(SourceFile{.path = file_name(), .columns = of_answers ? columns : none, .header = {}});
      unlabelled_.emplace(of_answers ? none : columns);
    });
  }
  std::string file_name() const { return flags_.data.empty() ? "stdin" : flags_.data; }

  Record record_of(const ordered_json& value, const data::Place& place) {
    Record record;
    if (is_of_answers(value)) {
      require_known_field(value, place);
      fields_->read(value, place, record);
      unread_.insert(record.unread.begin(), record.unread.end());
      return record;
    }
    LabelledRecord texts = unlabelled_->read(value, place);
    texts.label = labels()[0];
    record.line = place.line;
    record.content = std::move(texts);
    return record;
  }

  // What can be scored, of an object that has none of it.
  void require_known_field(const ordered_json& value, const data::Place& place) const {
    if (!value.is_object() || !flags_.columns.empty()) return;
    const std::vector<std::string>& known = data::known_fields(RecordKind::language);
    std::vector<std::string> names;
    for (const auto& [name, field] : value.items()) names.push_back(name);
    if (std::any_of(names.begin(), names.end(), [&](const auto& name) { return data::has(known, name); })) return;
    Error error(ErrorKind::data,
                fmt::format("{}: nothing to score; found {}; expected text, and text_pair where there are two, query "
                            "with documents (or positive and negatives), prompt and completion, or messages",
                            place.text(), names.empty() ? "no field" : list_names(names)));
    if (names.empty()) throw error;
    throw std::move(error).hint("--columns text=" + names[0] + " reads it from that field; text_pair beside it is the "
                                "second of two texts");
  }

  void add(const ordered_json& value, const data::Place& place) {
    StopSignal::check("classifying");
    if (of_questions_) return of_questions_->add(value, place);
    if (of_tokens_) return of_tokens_->add(value, place);
    if (lists_ && lists_->is_list(value)) return add_list(value, place);
    texts_of_.push_back(0);
    add_document(record_of(value, place), is_of_answers(value) ? *answers_ : *texts_, place);
  }

  void add_list(const ordered_json& value, const data::Place& place) {
    const std::vector<LabelledRecord> all = lists_->read(value, place);
    texts_of_.push_back(all.size());
    for (LabelledRecord texts : all) {
      texts.label = labels()[0];
      Record record;
      record.line = place.line;
      record.content = std::move(texts);
      add_document(record, *texts_, place);
    }
  }

  void add_document(const Record& record, const data::Tokenising& how, const data::Place& place) {
    data::RecordTokens tokens = data::to_tokens(record, how, place.path);
    if (tokens.label && tokens.label->cut > 0) ++cut_;
    if (tokens.ids.size() > longest_) cut_start(tokens.ids);
    HostDoc doc = document_of(tokens.ids, *model_, place);
    if (tokens.label && tokens.label->second < doc.ids.size()) {
      std::vector<std::int64_t>& types = doc.per_token["token_type_ids"];
      types.assign(doc.ids.size(), 0);
      std::fill(types.begin() + tokens.label->second, types.end(), 1);
    }
    rows_.push_back({std::move(doc)});
    if (std::ssize(rows_) == flags_.batch_size) answer();
  }

  // But for the token that texts begin with: the answer is at the end.
  void cut_start(std::vector<std::int32_t>& ids) {
    const bool begins = tokenizer_->bos_id && ids[0] == *tokenizer_->bos_id && longest_ > 1;
    ids.erase(ids.begin() + (begins ? 1 : 0), ids.end() - static_cast<std::ptrdiff_t>(longest_ - (begins ? 1 : 0)));
    ++cut_;
  }

  void answer() {
    if (rows_.empty()) return;
    const c10::NoGradGuard no_grad;
    const HostBatch host = pad(rows_, training::pad_id_of(*tokenizer_, model_->vocab_size()));
    rows_.clear();
    const Batch batch = to_batch(host).to(model_->device());
    Pass pass(batch);
    const Tensor logits_SL =
        host::read(model_->classifier()->logits(model_->forward(batch, pass), pass).to(at::kDouble));
    const bool several = problem_type() == ProblemType::multi_label_classification;
    const Tensor scores_SL = sigmoid_ ? logits_SL.sigmoid() : logits_SL;
    const Tensor shown_SL =
        (!gives_labels() ? scores_SL : several ? logits_SL.sigmoid() : logits_SL.softmax(-1)).contiguous();
    const std::span<const double> values = host::values<double>(shown_SL);
    if (!std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); }))
      throw nn::not_finite(*model_, "a logit");
    for (std::size_t at = 0; at < values.size(); at += labels().size()) take(values.subspan(at, labels().size()));
    answered_ += shown_SL.size(0);
  }

  // A list is a line, too.
  void take(std::span<const double> values) {
    const std::size_t texts = texts_of_.front();
    if (texts == 0) print(values);
    else scores_.push_back(values[0]);
    if (scores_.size() < texts) return;
    if (texts > 0) print_list();
    texts_of_.pop_front();
    scores_.clear();
  }

  void print_list() const {
    if (json_) return write_json({{"scores", scores_}});
    std::vector<std::string> parts;
    for (const double score : scores_) parts.push_back(fmt::format("{:.6g}", score));
    std::cout << join(parts, "\t") << '\n';
  }

  void print(std::span<const double> values) const {
    if (json_) return write_json(json_of(values));
    std::vector<std::string> parts;
    for (const std::size_t i : shown(values)) {
      const std::string name = escape_for_terminal(labels()[i]);
      parts.push_back(gives_labels()         ? fmt::format("{}\t{:.4f}", name, values[i])
                      : labels().size() == 1 ? fmt::format("{:.6g}", values[i])
                                             : fmt::format("{}\t{:.6g}", name, values[i]));
    }
    std::cout << join(parts, "\t") << '\n';
  }

  // The likeliest label, those that are likelier than not, or all numbers.
  std::vector<std::size_t> shown(std::span<const double> values) const {
    if (problem_type() == ProblemType::single_label_classification)
      return {static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin())};
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!gives_labels() || values[i] > 0.5) all.push_back(i);
    return all;
  }

  ordered_json json_of(std::span<const double> values) const {
    ordered_json line;
    if (!gives_labels()) {
      if (values.size() == 1) return {{"score", values[0]}};
      for (std::size_t i = 0; i < values.size(); ++i) line["scores"][labels()[i]] = values[i];
      return line;
    }
    if (problem_type() == ProblemType::single_label_classification) {
      const std::size_t best = shown(values)[0];
      line["label"] = labels()[best], line["probability"] = values[best];
    } else {
      line["labels"] = ordered_json::array();
      for (const std::size_t i : shown(values)) line["labels"].push_back(labels()[i]);
    }
    for (std::size_t i = 0; i < values.size(); ++i) line["probabilities"][labels()[i]] = values[i];
    return line;
  }

  void finish() {
    answer();
    if (of_questions_) {
      of_questions_->flush();
      answered_ = of_questions_->answered(), unread_ = of_questions_->unread();
    }
    if (of_tokens_) {
      of_tokens_->flush();
      answered_ = of_tokens_->answered(), cut_ = of_tokens_->cut(), unread_ = of_tokens_->unread();
    }
    if (answered_ == 0) throw Error(ErrorKind::data, file_name() + ": no texts");
    if (cut_ > 0)
      log::warning("{} of {} were longer than {} tokens and were cut", cut_, counted(answered_, "text"), longest_);
    if (lists_) unread_.insert(lists_->unread().begin(), lists_->unread().end());
    if (unlabelled_) unread_.insert(unlabelled_->unread().begin(), unlabelled_->unread().end());
    if (!unread_.empty()) log::info("fields that are not read: {}", list_names({unread_.begin(), unread_.end()}, 20));
  }

  Config flags_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<Model> model_;
  std::optional<data::Tokenising> texts_, answers_;
  std::optional<data::FieldMap> fields_;         // of answers
  std::optional<TextsToClassify> unlabelled_;
  std::optional<ListsToClassify> lists_;         // of a head that gives a score
  std::deque<std::size_t> texts_of_;  // of records that are not answered yet; 0: no list
  std::vector<double> scores_;        // of the first of them, a list, so far
  std::optional<TokenAnswers> of_tokens_;  // then it answers, and nothing else
  std::optional<QuestionAnswers> of_questions_;  // likewise
  std::optional<bool> columns_are_of_answers_;  // of a head for one number, where there are any
  std::set<std::string> unread_;
  std::vector<HostRow> rows_;
  std::size_t longest_ = 0;
  std::int64_t told_ = 0, answered_ = 0, cut_ = 0;
  bool json_ = false, has_pair_column_ = false;
  bool sigmoid_ = false;  // by which a score is shown
};

}  // namespace

void register_classify(Registries& hone) {
  hone.commands.add<Classify>("classify", "Give texts the labels, numbers or scores of a model's head.");
}

}  // namespace hone::cli
