// hone eval: metrics of a model on data, and its logits for comparison with other implementations.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/option_words.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cli/classify_tokens.h"
#include "cli/files.h"
#include "cli/embedder.h"
#include "cli/model_place.h"
#include "cli/named_files.h"
#include "cli/output.h"
#include "cli/read_data.h"
#include "cli/record_flags.h"
#include "cli/run_recipe.h"
#include "cli/text_length.h"
#include "data/choose_template.h"
#include "data/labels.h"
#include "data/template_variables.h"
#include "hone/command.h"
#include "hone/config_read.h"
#include "hone/evaluation.h"
#include "hone/generate.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "hub/cross_encoder.h"
#include "hub/sentence_files.h"
#include "hub/token_vector_files.h"
#include "io/safetensors_writer.h"
#include "nn/regression_loss.h"
#include "nn/text_embedding.h"
#include "objectives/late_neighbours.h"
#include "objectives/neighbours.h"
#include "objectives/sparse_neighbours.h"
#include "text/tokenizer/language.h"
#include "train/evaluate.h"
#include "train/inputs.h"
#include "train/pictures.h"
#include "train/state.h"

namespace hone::cli {
namespace {

class Eval final : public Command {
 public:
  struct Config : ModelFlags {
    using Base = ModelFlags;
    std::vector<std::string> data, columns, ignore, metric;
    std::string tokenizer, adapter, logits, image_folder, src_lang, tgt_lang;
    std::optional<std::int64_t> max_length;
    Overlong overlong = Overlong::split;
    Packing packing = Packing::none;
    std::int64_t batch_size = 8;
    bool append_eos = true;
    std::optional<Loss> loss;
    std::string chat_template, chat_template_kwargs;
    bool label_all_tokens = false;
    std::optional<std::string> step_separator;
    std::optional<std::int64_t> doc_stride;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          std::tuple{
              field("data", &C::data, "File to evaluate on, or name=file; may be given several times."),
              columns_flag<C>(),
              ignore_flag<C>(),
              field("image_folder", &C::image_folder,
                    "Folder that the paths of pictures start from; default: the file's own."),
              field(
                  "metric", &C::metric,
                  "What to measure, with options as {type: name, option: value}; may be given several times; default: "
                  "perplexity, of a folder of sentence-transformers how well its vectors find what belongs together, "
                  "or classification of a model with a classification head, multi_label or regression where its "
                  "config.json says so (problem_type), and regression of a cross-encoder of one label, else of one "
                  "label (a reward model) reward, or ranking where its run learnt that, of a head for tokens "
                  "token_classification, or process_reward where "
                  "its labels are false and true, of one that answers questions question_answering. Pairs "
                  "of answers are for preference and reward."),
              tokenizer_or_none_flag<C>(),
              adapter_of_run_flag<C>(),
              field("logits", &C::logits,
                    "Also write the fp32 logits of each row to this safetensors file, as logits.<row> of shape [T,V]."),
              field("max_length", &C::max_length,
                    "Longest row in tokens; default: as a folder of the sentence-transformers package says, of a "
                    "model with a classification head what its run had, else the positions the model was made for, at "
                    "most 2048; of questions what the model's run had, else 384.",
                    at_least(1)),
              field("overlong", &C::overlong, "What to do with longer records."),
              field("packing", &C::packing, "How records share rows; they never see each other."),
              field("batch_size", &C::batch_size, "Rows per forward pass.", at_least(1)),
              field("append_eos", &C::append_eos,
                    "End each text with the tokenizer's end-of-sequence token, and score it."),
              field("loss", &C::loss,
                    "Which tokens are scored: all, the assistant's turns, the last of them, or the completion; "
                    "default: all "
                    "of a text, the completion of a pair, the assistant's turns of a conversation."),
              chat_template_flag<C>(),
              chat_template_kwargs_flag<C>(),
              field("src_lang", &C::src_lang,
                    "Of translators of many languages: the token of the sources' language, as en_XX or eng_Latn, in "
                    "place of the one that the tokenizer puts around a text."),
              field("tgt_lang", &C::tgt_lang,
                    "Likewise of the targets', with which answers begin that are written."),
              field("label_all_tokens", &C::label_all_tokens,
                    "Of words with labels: each token of a word is measured, and not the first alone."),
              field("step_separator", &C::step_separator,
                    "Of steps: what follows each step, and carries its label; default: what the model's run learnt, "
                    "else a new line."),
              field("doc_stride", &C::doc_stride,
                    "Of questions: tokens that two windows of a text share; default: what the model's run had, else "
                    "128.",
                    at_least(0))},
          Base::fields());
    }
  };
  explicit Eval(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"MODEL --data FILE",
            {"hone eval my-model --data test.jsonl", "hone eval runs/quickstart --data test.jsonl --metric exact_match",
             "hone eval my-model --data news=news.jsonl --data code=code.jsonl --json"},
            1,
            1};
  }

  int run(const Invocation& call) override {
    const WordsOfFlags words;
    if (flags_.data.empty()) throw Error(ErrorKind::usage, "--data: missing; expected a file to evaluate on");
    if (!flags_.logits.empty() && flags_.data.size() > 1)
      throw Error(ErrorKind::usage, "--logits: goes with one --data only");
    const std::vector<Metric> metrics = read_metrics(flags_.metric);
    check_names();
    if (!flags_.logits.empty()) io::require_replaceable(flags_.logits, ErrorKind::checkpoint, kLogits);
    const ModelPlace place = model_place(call.positionals[0], flags_.adapter);
    const auto tokenizer = data::with_chat_template(tokenizer_of(place, flags_.tokenizer), flags_.chat_template,
                                                    "--chat-template");
    const auto model = load_embedding_model(place, flags_);
    if (flags_.max_length > model->max_positions())  // not where it was not given
      log::warning("--max-length: got {}, but the model was made for {} tokens", *flags_.max_length,
                   model->max_positions());
    embeds_ = sentence_folder(place);
    run_ = RunRecipe(place), place_ = place;
    const training::Evaluations evaluations = evaluations_for(*model, metrics);
    if (evaluations[0]->records() == RecordKind::steps)
      step_separator_ = step_separator_of(place, flags_.step_separator);
    writes_answers_ = std::ranges::any_of(evaluations, &Evaluation::writes_answers);
    if (writes_answers_)
      generation_ = generation_defaults(generation_folder(place).string(), model->vocab_size());
    if (!(flags_.src_lang + flags_.tgt_lang).empty()) require_seq2seq_lm(*model, "--src-lang and --tgt-lang");
    if (!flags_.tgt_lang.empty())
      generation_.forced_bos_token_id = text::LanguageMark(*tokenizer, flags_.tgt_lang, "--tgt-lang").id();
    reads_pictures_ = std::all_of(evaluations.begin(), evaluations.end(),
                                  [](const auto& evaluation) { return evaluation->reads_pictures(); });
    nlohmann::ordered_json report;
    for (const std::string& entry : flags_.data) {
      const auto [name, path] = named_file(entry);
      const auto data = with_hint(*model, [&] { return read(path, *model, *tokenizer, *evaluations[0]); });
      report[name] = evaluate(*model, evaluations, *data, tokenizer);
      for (std::size_t i = 0; i < metrics.size(); ++i)
        if (const std::string words = evaluations[i]->signature(); !words.empty())
          report[name][metrics[i].type + "_signature"] = words;
      if (!flags_.logits.empty()) write_logits(require_causal_lm(*model, "--logits"), *data, flags_.logits);
    }
    print(report, call.json);
    return 0;
  }

 private:
  void check_names() const {
    std::vector<std::pair<std::string, std::string>> sets;
    for (const std::string& entry : flags_.data) sets.push_back(named_file(entry));
    require_names_apart(sets);
  }

  using Metric = config::Choice<Evaluation>;

  // A name, or a section with its type and its options.
  static std::vector<Metric> read_metrics(const std::vector<std::string>& given) {
    Problems problems;
    std::vector<Metric> metrics;
    for (const std::string& text : given) {
      Metric& metric = metrics.emplace_back();
      const bool is_section = text.starts_with('{');
      const config::Node node = is_section ? config::parse_yaml(text, "--metric", problems) : config::Node();
      const config::Node* type = node.find("type");
      const std::string name = !is_section ? text : type ? type->text() : "";
      std::vector<std::string> known = registries().evals.names();
      std::ranges::sort(known);
      if (is_section && !type) problems.add("--metric " + text, "no type; expected {type: name, option: value}");
      else if (!registries().evals.find(name))
        problems.add("--metric " + name, "no such metric; there are " + list_names(known, known.size()),
                     nearest(name, known));
      else if (is_section) config::Values<Metric>::read(node, metric, {problems, ""});
      else metric.type = name;
    }
    problems.raise("the command line", ErrorKind::usage);
    return metrics;
  }

  training::Evaluations evaluations_for(const Model& model, std::vector<Metric> metrics) const {
    if (metrics.empty() && embeds_ && embeds_->token_vectors)
      return {objectives::make_late_neighbours(embeds_->normalize, hub::token_similarity(*embeds_))};
    if (metrics.empty() && embeds_ && embeds_->splade)
      return {objectives::make_sparse_neighbours(*embeds_->splade, objectives::Neighbours::either,
                                                 sparse_similarity(model))};
    if (metrics.empty() && embeds_)
      return {objectives::make_neighbours(embeds_->pooling, objectives::Neighbours::either, similarity(model))};
    if (metrics.empty()) metrics.emplace_back().type = usual_metric(model);
    for (Metric& metric : metrics) take_regression_loss(model, metric);
    training::Evaluations evaluations;
    for (const Metric& metric : metrics) {
      evaluations.push_back(registries().evals.make(metric));
      evaluations.back()->check(model);
      if (std::ranges::count(metrics, metric.type, &Metric::type) > 1)
        throw Error(ErrorKind::usage,
                    fmt::format("--metric {}: given more than once; expected each once, as its numbers have one name",
                                metric.type));
      const Evaluation &first = *evaluations[0], &last = *evaluations.back();
      if (last.records() != first.records() || last.problem_type() != first.problem_type())
        throw Error(ErrorKind::usage, fmt::format("--metric {} and {}: measured on records of different kinds",
                                                  metrics[0].type, metric.type));
    }
    return evaluations;
  }

  // Of numbers, what was not given: as the model's run learnt them, else as its folder shows a score.
  void take_regression_loss(const Model& model, Metric& metric) const {
    constexpr const char *kType = "regression", *kLoss = "regression_loss";
    if (metric.type != kType || !model.classifier() || model.classifier()->of_tokens()) return;
    config::Node node = config::Node::map({{"type", config::Node::scalar(kType)}});
    if (metric.options) node = config::Values<Metric>::write(metric);
    if (const config::Node* given = node.is_map() ? node.find(kLoss) : nullptr; given && !given->is_null()) return;
    std::optional<std::string> loss = run_.option("classification", "objective", kLoss);
    if (!loss && model.classifier()->labels().size() == 1 && hub::shows_sigmoid(model, place_.folder))
      loss = config::Values<nn::RegressionLoss>::write(nn::RegressionLoss::binary_cross_entropy).text();
    if (!loss) return;
    node = config::Node::map({{"type", config::Node::scalar(kType)}, {kLoss, config::Node::scalar(*loss)}});
    Problems problems;
    config::Values<Metric>::read(node, metric, {problems, "--metric"});
    problems.raise();
  }

  // What the folder compares vectors by. Error(checkpoint): hone has not.
  objectives::Similarity similarity(const Model& model) const {
    const std::int64_t width = nn::embedding_width(model), dims = std::min(embeds_->dims.value_or(width), width);
    const std::string& name = embeds_->similarity;
    const bool same_order = name == "euclidean" && embeds_->normalize && dims == width;  // as cosines have
    if (name != "cosine" && name != "dot" && !same_order)
      throw Error(ErrorKind::checkpoint,
                  fmt::format("config_sentence_transformers.json: similarity_fn_name: got {}, expected cosine or dot, "
                              "which hone measures by",
                              hone::quoted(name)));
    return {name == "dot", embeds_->normalize, dims};
  }

  objectives::SparseSimilarity sparse_similarity(const Model& model) const {
    require_masked_lm(model, "a sparse encoder");
    return {similarity(model).dot, embeds_->max_active_dims.value_or(0)};
  }

  // Of texts with a score the order is measured, of others what is near: not of both.
  static void check_scores(const Dataset& data) {
    std::optional<std::int64_t> with, without;
    for (std::int64_t row = 0; row < data.rows() && !(with && without); ++row)
      for (const HostDoc& doc : data.row(row))
        if (doc.role == Role::query)  // of a query's texts a teacher may have said something, and of it not
          if (auto& one = doc.numbers.contains("score") ? with : without; !one) one = doc.record;
    if (with && without)
      throw Error(ErrorKind::data, fmt::format("{}: has no score, and {} has one; expected all or none",
                                               data.record_name(*without), data.record_name(*with)))
          .hint("--ignore score passes over it");
  }

  // A head of one label that its config.json calls regression may be a reward model's, and a cross-encoder measured on
  // lists.
  template <class Read>
  std::shared_ptr<const Dataset> with_hint(const Model& model, const Read& read) const {
    try {
      return read();
    } catch (Error& error) {
      const std::string_view guess = flags_.metric.empty() ? usual_metric(model) : "";
      if (error.kind() != ErrorKind::data) throw;
      const std::string lists = "--metric ranking measures on queries with texts";
      if (guess == "reward" && std::string_view(error.what()).find("no field \"chosen\"") != std::string_view::npos)
        throw Error(error).hint(lists + ", regression on texts with numbers; without a word it is reward, on pairs of "
                                        "answers");
      if (guess != "regression") throw;
      const char* said = model.classifier()->problem_type() ? "'s config.json says regression" : " is a cross-encoder";
      throw Error(error).hint(lists + ", --metric reward a reward model on pairs of answers; this one" + said);
    }
  }

  static std::optional<hub::SentenceFolder> sentence_folder(const ModelPlace& place) {
    if (!place.adapter.empty())
      if (auto found = hub::read_sentence_folder(place.adapter)) return found;
    return hub::read_sentence_folder(place.folder);
  }

  const char* usual_metric(const Model& model) const {
    const Classifier* classifier = model.classifier();
    if (!classifier) return "perplexity";
    if (classifier->answers_questions()) return "question_answering";
    if (classifier->of_tokens())
      return classifier->labels() == std::vector<std::string>{"false", "true"} ? "process_reward"
                                                                              : "token_classification";
    const auto said = classifier->problem_type();
    if (said == ProblemType::multi_label_classification) return "multi_label";
    if (said == ProblemType::regression) return "regression";
    if (run_.is_of("ranking")) return "ranking";
    const auto learnt = run_.option("classification", "objective", "problem_type");  // an adapter's model is as it was
    if (!said && learnt == "regression") return "regression";
    const bool one = classifier->labels().size() == 1;
    if (!said && one && hub::says_cross_encoder(model, place_.folder)) return "regression";  // and no model of rewards
    return one ? "reward" : "classification";
  }

  // "name=file", or a file whose name without its last extension is the name.
  static std::pair<std::string, std::string> named_file(const std::string& entry) {
    const auto equals = entry.find('=');
    if (equals != std::string::npos && !std::filesystem::exists(entry))
      return {entry.substr(0, equals), entry.substr(equals + 1)};
    const std::filesystem::path path = std::filesystem::path(entry).lexically_normal();
    return {(path.has_filename() ? path : path.parent_path()).stem().string(), entry};
  }

  std::shared_ptr<const Dataset> read(const std::string& path, const Model& model, const Tokenizer& tokenizer,
                                      const Evaluation& evaluation) const {
    DataFile file;
    file.path = path;
    file.columns = parse_columns(flags_.columns);
    file.ignore = flags_.ignore;
    file.image_folder = flags_.image_folder;
    Dataset::Options options;
    options.overlong = flags_.overlong;
    options.packing = flags_.packing;
    options.append_eos = flags_.append_eos;
    options.loss = flags_.loss;
    options.vocab_size = model.vocab_size();
    options.records = evaluation.records();
    const bool as_said = model.classifier() || options.records == RecordKind::embedding;
    options.max_length = as_said ? text_length(place_, model, flags_.max_length)
                                 : flags_.max_length.value_or(usual_length(model));
    if (const Seq2SeqLm* lm = model.seq2seq_lm(); lm && options.records == RecordKind::language)
      options.records = RecordKind::seq2seq, options.targets.start = lm->decoder_start();
    options.targets.source_language = flags_.src_lang, options.targets.target_language = flags_.tgt_lang;
    options.problem_type = evaluation.problem_type();
    options.keep_references = writes_answers_;
    if (reads_pictures_) options.pictures = training::pictures_of(model, place_.folder);
    if (embeds_) {
      options.token_vectors = embeds_->token_vectors;
      options.query_prompt = embeds_->prompt({"query"});
      options.document_prompt = embeds_->prompt({"document", "passage"});
    }
    options.token_labels = token_labels_of({flags_.label_all_tokens, flags_.step_separator}, options.records, "--");
    if (options.records == RecordKind::steps) options.token_labels.step_separator = step_separator_;
    options.questions = questions_of(flags_.doc_stride, options.records, "--");
    if (options.records == RecordKind::question) {
      const WindowSizes sizes = window_sizes(run_, model, flags_.max_length, flags_.doc_stride);
      options.max_length = sizes.max_length, options.questions.doc_stride = sizes.doc_stride;
    }
    data::check_variables(flags_.chat_template_kwargs, "--chat-template-kwargs");
    options.chat_template_kwargs = flags_.chat_template_kwargs;
    const bool labelled = options.records == RecordKind::labelled || data::are_of_tokens(options.records);
    if (labelled) options.labels = model.classifier()->labels();
    model.check_length(options.max_length, "--max-length");
    const std::shared_ptr<const Dataset> data = Dataset::make({file}, tokenizer, options);
    if (options.records == RecordKind::embedding) check_scores(*data);
    return data;
  }

  nlohmann::ordered_json evaluate(const Model& model, const training::Evaluations& evaluations, const Dataset& data,
                                  const std::shared_ptr<const Tokenizer>& tokenizer) const {
    const StopSignal signals;
    Progress progress({.what = "eval", .unit = "row", .total = data.rows()});
    training::EvaluateOptions options{flags_.batch_size, training::pad_id_of(*tokenizer, model.vocab_size())};
    options.tokenizer = tokenizer, options.generation = generation_;
    options.before = [&](std::int64_t rows, std::int64_t tokens) {
      StopSignal::check("evaluating");
      progress.add_tokens(tokens);
      progress.update(rows);
      return true;
    };
    const auto metrics = training::evaluate(model, evaluations, data, options);
    progress.finish();
    nlohmann::ordered_json report = training::json_of(*metrics);
    const DataReport& counts = data.report();
    report["records"] = counts.records;
    for (const auto& [name, count] :
         {std::pair{"cut", counts.cut}, {"dropped", counts.dropped}, {"split", counts.split}})
      if (count > 0) report[name] = count;
    return report;
  }

  void print(const nlohmann::ordered_json& report, bool json) const {
    if (json) return write_json(flags_.data.size() == 1 ? report.front() : report);
    for (const auto& [name, metrics] : report.items()) {
      std::cout << name << '\n';
      for (const auto& [metric, value] : metrics.items())
        std::cout << fmt::format("  {:<18} {}\n", metric,
                                 value.is_number_float() ? fmt::format("{:.6g}", value.get<double>())
                                 : value.is_string()     ? value.get<std::string>()
                                                         : value.dump());
    }
  }

  Config flags_;
  ModelPlace place_;
  bool reads_pictures_ = false, writes_answers_ = false;  // what is measured
  GenerateConfig generation_;  // of who writes answers: what the folder says
  std::optional<hub::SentenceFolder> embeds_;  // what the model's folder says of its vectors
  std::string step_separator_;
  RunRecipe run_;  // that the model is of
};

}  // namespace

void register_eval(Registries& hone) { hone.commands.add<Eval>("eval", "Measure a model on data."); }

}  // namespace hone::cli
