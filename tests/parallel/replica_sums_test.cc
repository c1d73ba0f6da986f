// Sums of replicas: on their way while the last pass goes on, in the same order however a rank's passes are, and whole.
#include "parallel/replica_sums.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "hub/folders.h"
#include "models/golden.h"
#include "nn/weight_groups.h"

namespace hone::parallel {
namespace {

struct Done final : Begun {
  void wait() override {}
};

// Two ranks, of which the other one has what this one has.
class Twin final : public Collectives {
 public:
  explicit Twin(std::vector<std::string>& said) : said_(said) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void sum(Tensor& x) override { x.mul_(2); }
  std::unique_ptr<Begun> begin_sum(const Tensor& whole, const Tensor& share) override {
    share.copy_(whole.narrow(0, 0, share.numel()) * 2);
    said_.push_back("sum " + std::to_string(whole.numel()));
    return std::make_unique<Done>();
  }
  std::unique_ptr<Begun> begin_gather(const Tensor& share, const Tensor& whole) override {
    whole.narrow(0, 0, share.numel()).copy_(share);
    whole.narrow(0, share.numel(), share.numel()).mul_(2);
    said_.push_back("gather " + std::to_string(whole.numel()));
    return std::make_unique<Done>();
  }
  std::unique_ptr<Begun> begin_all_to_all(const Tensor& from, const Tensor& to) override {
    to.copy_(from);
    return std::make_unique<Done>();
  }
  std::shared_ptr<Collectives> among(int) override { return nullptr; }
  std::shared_ptr<Collectives> across(int) override { return nullptr; }
  std::vector<std::string> gather(const std::string& own) override { return {own, own}; }

 private:
  std::vector<std::string>& said_;
};

class Replicas : public testing::Test {
 protected:
  Replicas() {
    const c10::NoGradGuard no_grad;
    sums_.reserve(100);
    std::vector<ReplicaGroup> groups;
    for (const nn::WeightGroup& group : nn::weight_groups(*model_)) {
      std::int64_t total = 0;
      for (const nn::GroupedWeight& one : group.weights) total += one.weight->numel();
      ReplicaGroup made{group.unit, at::full({(total + 1) / 2 * 2}, NAN), {}};
      for (std::int64_t at = 0; const nn::GroupedWeight& one : group.weights) {
        const Tensor& value = one.weight->use();
        sums_.push_back({made.piece.narrow(0, at, value.numel()).view(value.sizes())});
        one.weight->set_gradient_sum(&sums_.back());
        made.sums.emplace_back(one.weight, &sums_.back());
        at += value.numel();
      }
      groups.push_back(std::move(made));
    }
    replicas_ = std::make_unique<ReplicaSums>(*model_, World(std::make_shared<Twin>(said_)), std::move(groups));
  }

  Tensor loss() {
    const Tensor ids = at::arange(6, at::kLong).unsqueeze(0);
    const Batch batch = test::make_batch(ids, ids, at::ones_like(ids));
    Pass pass(batch);
    return model_->forward(batch, pass).hidden_BTD.square().sum();
  }
  // Of a model of its own, whose gradients autograd keeps.
  std::vector<Tensor> expected(double times) {
    const auto other = test::small_model();
    const Tensor ids = at::arange(6, at::kLong).unsqueeze(0);
    const Batch batch = test::make_batch(ids, ids, at::ones_like(ids));
    Pass pass(batch);
    other->forward(batch, pass).hidden_BTD.square().sum().backward();
    std::vector<Tensor> made;
    for (const nn::WeightGroup& group : nn::weight_groups(*other))
      for (const nn::GroupedWeight& one : group.weights) {
        const Tensor gradient = one.weight->grad();
        made.push_back(gradient.defined() ? gradient * times : Tensor());
      }
    return made;
  }
  void expect_sums(double times) {
    const std::vector<Tensor> right = expected(times);
    ASSERT_EQ(right.size(), sums_.size());
    for (std::size_t i = 0; i < right.size(); ++i) {
      EXPECT_EQ(sums_[i].full(), right[i].defined()) << i;
      EXPECT_TRUE(!right[i].defined() || at::allclose(sums_[i].sum, right[i], 1e-5, 1e-6)) << i;
    }
  }

  std::unique_ptr<Model> model_ = test::small_model();
  std::vector<GradientSum> sums_;
  std::vector<std::string> said_;
  std::unique_ptr<ReplicaSums> replicas_;
};

TEST_F(Replicas, AreOnTheirWayWhileTheLastPassGoesOn) {
  loss().backward();
  EXPECT_TRUE(said_.empty());
  replicas_->expect_last_pass();
  loss().backward();
  const std::vector<std::string> meanwhile = said_;
  ASSERT_EQ(meanwhile.size(), 3u);  // the upper block's sums, which are whole before the lower one's are sent
  EXPECT_EQ(meanwhile[0].substr(0, 3), "sum");
  EXPECT_EQ(meanwhile[1].substr(0, 3), "gat");
  EXPECT_EQ(meanwhile[2].substr(0, 3), "sum");
  replicas_->finish();
  expect_sums(4);  // two passes of two ranks
  for (GradientSum& sum : sums_) sum = {sum.sum};
  const std::vector<std::string> overlapped = std::exchange(said_, {});
  loss().backward();
  replicas_->finish();  // a rank that was not told of a last pass says the same
  EXPECT_EQ(said_, overlapped);
  expect_sums(2);
}

TEST_F(Replicas, APassOfTwoForwardsWaitsForItsEnd) {
  replicas_->expect_last_pass();
  (loss() + loss()).backward();
  EXPECT_TRUE(said_.empty());
  replicas_->finish();
  expect_sums(4);
}

TEST_F(Replicas, ARankWithoutAPassHasTheOthersSums) {
  replicas_->finish();
  for (const GradientSum& sum : sums_) EXPECT_FALSE(sum.full());  // nobody had any
  EXPECT_EQ(said_.size(), 6u);
}

}  // namespace
}  // namespace hone::parallel
