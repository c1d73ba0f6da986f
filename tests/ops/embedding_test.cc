// Embedding look-up against its meaning.
#include "ops/embedding.h"

#include "hone/error.h"
#include "ops/check.h"

namespace hone::ops::test {
namespace {

const Tensor kIds = at::tensor({3, 0, 3, 3, 1, 0}, at::kLong).view({2, 3});
Op fast_embedding(std::int64_t skip) {
  return [skip](const auto& in) { return ops::embedding(in[0], kIds, skip); };
}
Op plain(std::int64_t skip) {
  return [skip](const auto& in) { return reference::embedding(in[0], kIds, skip); };
}

TEST(Embedding, AgreesWithItsMeaning) {
  for (const std::int64_t width : {1, 5, 64, 200})
    for (const std::int64_t skip : {-1, 3}) expect_matches(fast_embedding(skip), plain(skip), {sample({4, width})});
}
TEST(Embedding, GradientsAreThoseOfDifferences) { gradcheck(fast_embedding(-1), {sample({4, 3})}); }
TEST(Embedding, ThePaddingIdGetsNoGradient) {
  const Result result = value_and_gradients(fast_embedding(3), {sample({4, 3})});
  EXPECT_EQ(largest(result.gradients[0][3]), 0);
  EXPECT_GT(largest(result.gradients[0][0]), 0);
}
TEST(Embedding, AnIdBeyondTheVocabularyIsAnErrorOfTheData) {
  for (const std::int64_t id : {std::int64_t{4}, std::int64_t{-1}}) try {
      ops::embedding(sample({4, 3}), at::full({1, 1}, id, at::kLong));
      FAIL() << "no error for " << id;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_NE(std::string(error.what()).find("token id " + std::to_string(id)), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace hone::ops::test
