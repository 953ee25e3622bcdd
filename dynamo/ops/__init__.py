"""What is known of torch's operators: `facts` asks, `rows` holds what torch doesn't say of them."""
