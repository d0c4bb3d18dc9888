module @jit_table attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]>
  func.func public @main(%arg0: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {"tp"}]>}) -> (tensor<16x16xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<[0, 1, 0, 1, 0, 1, 0, 1]> : tensor<8xi32>
    %0 = sdy.manual_computation(%arg0, %c) in_shardings=[<@mesh, [{"dp"}, {"tp"}]>, <@mesh, [{"dp", "tp"}]>] out_shardings=[<@mesh, [{"dp"}, {"tp"}]>] manual_axes={"dp", "tp"} (%arg1: tensor<8x4xf32>, %arg2: tensor<1xi32>) {
      %1 = stablehlo.slice %arg2 [0:1] : (tensor<1xi32>) -> tensor<1xi32>
      %2 = stablehlo.reshape %1 : (tensor<1xi32>) -> tensor<i32>
      %c_0 = stablehlo.constant dense<0> : tensor<i32>
      %3 = stablehlo.compare  GT, %2, %c_0,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %4 = stablehlo.convert %3 : (tensor<i1>) -> tensor<i32>
      %5 = "stablehlo.case"(%4) ({
        %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
        %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
        %7 = stablehlo.multiply %arg1, %6 : tensor<8x4xf32>
        stablehlo.return %7 : tensor<8x4xf32>
      }, {
        %6 = "stablehlo.all_reduce"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
        ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
          %7 = stablehlo.add %arg3, %arg4 : tensor<f32>
          stablehlo.return %7 : tensor<f32>
        }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
        stablehlo.return %6 : tensor<8x4xf32>
      }) : (tensor<i32>) -> tensor<8x4xf32>
      sdy.return %5 : tensor<8x4xf32>
    } : (tensor<16x16xf32>, tensor<8xi32>) -> tensor<16x16xf32>
    return %0 : tensor<16x16xf32>
  }
}
