// Which head an encoder has.
#include "models/encoder_head.h"

#include <algorithm>

#include "hone/config_read.h"

namespace hone::models {

const char* EncoderHead::class_end() const {
  return !labels.empty() ? labels.class_end() : masked_lm ? "ForMaskedLM" : "Model";
}

void read_head(const LabelKeys& keys, bool tied, EncoderHead& head, Problems& problems) {
  head.labels = read_labels(keys, problems);
  const auto says = [&](const auto& fits) {
    const auto& classes = keys.architectures;
    return head.labels.empty() && classes && std::any_of(classes->begin(), classes->end(), fits);
  };
  if (says([](const std::string& name) { return name.ends_with("ForQuestionAnswering"); })) {
    head.labels.names.assign(kPlacesOfAnswers.begin(), kPlacesOfAnswers.end());
    head.labels.of_tokens = head.labels.of_answers = true;
  }
  head.masked_lm = tied && says([](const std::string& name) {
    return name.ends_with("ForMaskedLM") || name == "BertForPreTraining" || name == "AlbertForPreTraining";
  });
}

void ask_for(const HeadRequest& request, bool tied, EncoderHead& head, Problems& problems) {
  if (!request.labels.empty()) ask_for(request, head.labels), head.masked_lm = false;
  if (request.masked_lm) head.masked_lm = true, head.labels = {};
  problems.require(!request.masked_lm || tied, "tie_word_embeddings",
                   "got false, expected true: the head for masked tokens uses the table of words");
}

}  // namespace hone::models
