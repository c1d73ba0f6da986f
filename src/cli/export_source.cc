// Finding what is exported, and reading what is known of it.
#include "cli/export_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "cli/checkpoint_place.h"
#include "hone/hub.h"
#include "hone/safetensors.h"
#include "hub/adapter_config.h"
#include "hub/sentence_files.h"
#include "io/checkpoints.h"
#include "io/json.h"
#include "io/lines.h"
#include "io/metrics_file.h"
#include "io/runs_within.h"
#include "train/model_source.h"

namespace hone::cli {
namespace {

// As the hub calls tasks.
constexpr const char *kOfTokens = "token-classification", *kOfTexts = "feature-extraction",
                     *kOfQuestions = "question-answering";

namespace fs = std::filesystem;
constexpr const char* kCard = "README.md";
constexpr std::uint64_t kTextLimit = 512'000'000;  // tokenizers may be large

fs::path checkpoint_of(const fs::path& run, const std::string& chosen) {
  const fs::path folder = run / "checkpoints";
  if (chosen == "latest") return checkpoint_place(run.string(), /*verified=*/false).folder;
  const io::Checkpoints checkpoints(Env::process().open_folder(folder));
  if (chosen == "best") return folder / training::best_checkpoint(checkpoints).name;
  const auto step = parse_int(chosen);
  if (!step || *step < 0)
    throw Error(ErrorKind::usage, "--checkpoint: got " + hone::quoted(chosen) + ", expected latest, best or a step");
  return folder / checkpoints.at(*step).name;
}

fs::path folder_of(const std::string& where, const std::optional<std::string>& checkpoint) {
  std::error_code ignored;
  const fs::path path = where;
  if (fs::is_directory(path / "checkpoints", ignored)) return checkpoint_of(path, checkpoint.value_or("latest"));
  if (checkpoint)
    throw io::naming_runs_within(
        Error(ErrorKind::usage, "--checkpoint: " + where + ": not a run folder with checkpoints"), path);
  return hub::is_adapter_folder(path) ? path : find_model_folder(where);
}

bool is_own_to_hone(const std::string& name) {
  static const std::set<std::string> names{io::kManifestName, "trainer_state.json", "state"};
  return names.contains(name);
}

bool is_weight_file(const std::string& name) {
  return name.ends_with(".safetensors") || name == "model.safetensors.index.json";
}

// What transformers and people read beside the weights: nothing that could run.
bool goes_along(const std::string& name) {
  for (const char* ending : {".json", ".jinja", ".txt", ".model", ".tiktoken", ".md"})
    if (name.ends_with(ending)) return true;
  return name.starts_with("LICENSE") || name.starts_with("NOTICE");
}

void read_files(ExportSource& source) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(source.folder)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (is_own_to_hone(name) || is_weight_file(name)) continue;
    if (entry.is_regular_file(ignored) && goes_along(name) && name[0] != '.')
      names.push_back(name);
    else
      source.left_out.push_back(name);
  }
  std::vector<std::pair<std::string, std::string>> inside;  // folders of modules
  for (auto& file : hub::copied_sentence_files(source.folder))
    if (const std::size_t slash = file.first.find('/'); slash != std::string::npos) {
      std::erase(source.left_out, file.first.substr(0, slash));
      inside.push_back(file);
    }
  std::sort(names.begin(), names.end());
  std::sort(source.left_out.begin(), source.left_out.end());
  for (const std::string& name : names)
    source.texts.emplace_back(name, InFile(source.folder / name).read_all(kTextLimit));
  source.texts.insert(source.texts.end(), inside.begin(), inside.end());
}

const std::string* text_of(const ExportSource& source, const std::string& name) {
  for (const auto& [file, content] : source.texts)
    if (file == name) return &content;
  return nullptr;
}

const char* task_of(const Classifier& classifier) {
  if (classifier.answers_questions()) return kOfQuestions;
  return classifier.of_tokens() ? kOfTokens : "text-classification";
}

void describe_model(ExportSource& source) {
  const std::string file = (source.folder / "config.json").string();
  const config::Node node = config::read_file(file);
  const std::unique_ptr<Model> model = build_model(node, file);
  const auto word = [&](const char* key) {
    const config::Node* value = node.find(key);
    if (value && !value->items().empty()) value = &value->items()[0];
    return value && value->kind() == config::Node::Kind::scalar ? value->text() : std::string();
  };
  source.facts.model_type = word("model_type");
  source.facts.architecture = word("architectures");
  source.facts.task = text_of(source, "modules.json") ? kOfTexts
                      : model->seq2seq_lm() ? "text2text-generation"
                      : model->causal_lm()  ? "text-generation"
                      : model->classifier() ? task_of(*model->classifier())
                      : model->masked_lm()  ? "fill-mask"
                                            : kOfTexts;
}

void describe_adapter(ExportSource& source) {
  const hub::AdapterConfig config = hub::read_adapter_config(source.folder);
  source.facts.adapter = true;
  source.facts.base = config.base;
  const nlohmann::json json = io::parse_json(*text_of(source, hub::kAdapterConfig),
                                             (source.folder / hub::kAdapterConfig).string(), io::kConfigJson);
  const nlohmann::json task = json.value("task_type", nlohmann::json());
  source.facts.task = task == "SEQ_CLS"     ? "text-classification"
                      : task == "FEATURE_EXTRACTION" ? kOfTexts
                      : task == "TOKEN_CLS" ? kOfTokens
                      : task == "QUESTION_ANS" ? kOfQuestions
                                            : "text-generation";
}

// Of the run: what its recipe says, and what it found.
void describe_run(ExportSource& source, const CheckpointPlace& place) {
  CardFacts& facts = source.facts;
  facts.recipe = read_recipe(config::read_file((place.folder / "state" / "config.yaml").string()));
  const io::Manifest manifest = io::Manifest::read(Env::process().open_folder(place.folder));
  if (!manifest.finite)
    throw Error(ErrorKind::not_finite, place.folder.string() + ": its weights hold NaN or Inf")
        .hint("--checkpoint with an earlier step");
  facts.step = manifest.step, facts.tokens = manifest.tokens, facts.ranks = manifest.world;
  const std::string file = (place.folder / "trainer_state.json").string();
  const nlohmann::json trainer =
      io::parse_json(InFile(file).read_all(kTextLimit), file, {std::uint64_t{1} << 30, 100, ErrorKind::checkpoint});
  facts.steps = trainer.value("max_steps", std::int64_t{0});
  facts.log = trainer.value("log_history", nlohmann::json::array());
  std::error_code ignored;
  const fs::path tests = place.run / io::kTestFile;
  if (place.run.empty() || !fs::exists(tests, ignored)) return;
  io::LineReader reader(tests);
  std::string_view line;
  while (reader.next(line)) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value("checkpoint", "") == place.folder.filename().string())
      facts.tests.push_back(json);
  }
}

}  // namespace

bool ExportSource::has_card() const { return text_of(*this, kCard) != nullptr; }

ExportSource export_source(const std::string& where, const std::optional<std::string>& checkpoint) {
  ExportSource source;
  source.folder = folder_of(where, checkpoint);
  std::error_code ignored;
  const bool of_run = fs::exists(source.folder / "state" / "config.yaml", ignored);
  std::optional<CheckpointPlace> place;
  if (of_run) place = checkpoint_place(source.folder.string(), /*verified=*/true);
  read_files(source);
  hub::is_adapter_folder(source.folder) ? describe_adapter(source) : describe_model(source);
  if (place) describe_run(source, *place);
  if (source.facts.adapter && source.facts.recipe) {  // PEFT has no word for them in an adapter's file
    const std::string& type = source.facts.recipe->objective.type;
    if (type == "masked_lm") source.facts.task = "fill-mask";
    if (type == "sparse_embedding") source.facts.task = kOfTexts;
  }
  const std::string* tokenizer = text_of(source, "tokenizer_config.json");
  source.facts.chat = text_of(source, "chat_template.jinja") ||
                      (tokenizer && tokenizer->find("\"chat_template\"") != std::string::npos);
  return source;
}

}  // namespace hone::cli
